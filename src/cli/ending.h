/* How a program's end is put to people: the same words, whoever ran it. */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>
#include <stdint.h>

void ending_timed_out(int64_t timeout_ns); /* 0: nobody here knows when that was */

/* What the memory limit did to a sandbox that was made for one program. */
struct ending_memory {
    uint32_t kills; /* 0: nothing is said */
    uint64_t limit; /* 0: not known */
    bool killed;    /* the program itself, as far as one can see from here */
};
void ending_memory(const struct ending_memory *m, bool quiet); /* quiet: no notes */

#endif
