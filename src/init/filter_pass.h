#ifndef INIT_FILTER_PASS_H
#define INIT_FILTER_PASS_H

#include <stdint.h>

/* Stand for two random numbers that PID 1 draws before it loads the filter, and that only it and
 * its file operations know. Programs are started by execve(), which leaves nothing of them; a
 * filter of their own, loaded at each start, would say the same and cost a tenth of a millisecond.
 */
#define FILTER_PASS_FIRST  UINT32_C(0x50a55001)
#define FILTER_PASS_SECOND UINT32_C(0x50a55002)

#endif
