/* One line on a terminal's stderr that says what is being waited for, once it takes longer than a
 * moment. A timer signal draws it, so that whoever waits may just block. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

/* Does nothing where stderr is no terminal. What is said from outside must not be in `what`. */
void progress_begin(const char *what);
void progress_moved(uint64_t bytes); /* in addition to what moved so far */
void progress_end(void);             /* takes the line away; may be called without a begin */

#endif
