/* One line on a terminal's stderr that says what is being waited for, once it takes longer than a
 * moment. A timer signal draws it, so that whoever waits may just block. Where stderr is no
 * terminal, a few lines for what may take long: one for each step, and for each quarter of it. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

bool progress_wanted(void); /* stderr is a terminal; all but lines do nothing where it is not */
/* What is said from outside must not be in `what`. */
void progress_begin(const char *what);
/* What it is at now; "" again: nothing that is known. May be from outside: what is no word is not
 * shown. */
void progress_step(struct str step);
void progress_moved(uint64_t bytes); /* in addition to what moved so far */
void progress_at(uint64_t bytes);    /* so much moved so far */
void progress_of(uint64_t bytes);    /* … of so much; 0: nobody knows */
/* Where it is not: from now on, to the end. News go to both ways of showing. */
void progress_lines(const char *what);
void progress_news(struct str step, uint64_t bytes, uint64_t total);
void progress_end(void); /* takes the line away; may be called without a begin */

#endif
