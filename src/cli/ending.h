/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about the end of a program, the same for local and remote runs. */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>
#include <stdint.h>

void ending_timed_out(int64_t timeout_ns); /* 0: the timeout is not known here */

/* Kills by the memory limit in a sandbox that was created for one program. */
struct ending_memory {
    uint32_t kills; /* 0: no message */
    uint64_t limit; /* 0: not known */
    bool killed;    /* the program itself, as far as one can see from here */
};
void ending_memory(const struct ending_memory *m, bool quiet); /* quiet: no notes */

enum { ENDING_LIMIT_MAX = 40 };
void ending_limit(uint64_t limit, char out[static ENDING_LIMIT_MAX]); /* " (limit 64M)"; 0: "" */

#endif
