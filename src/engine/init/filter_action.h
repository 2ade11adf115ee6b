#ifndef INIT_FILTER_ACTION_H
#define INIT_FILTER_ACTION_H

#include <linux/seccomp.h>
#include <stdint.h>

#include "ipc/kernel.h"

/* What the filter does with a system call. */
#define FILTER_ALLOW         SECCOMP_RET_ALLOW
#define FILTER_REFUSE(error) (SECCOMP_RET_ERRNO | (error))

/* Refused unless the sandbox has that bit of enum kernel_bits: a mark that PID 1 replaces before it
 * loads the program. The kernel knows no such action, and kills for it. */
#define FILTER_UNLESS(bit, error) (FILTER_UNLESS_ | (uint32_t)(bit) << 16 | (error))
#define FILTER_UNLESS_            UINT32_C(0x5a000000)
#define FILTER_UNLESS_MASK_       UINT32_C(0xff000000)

/* Within a rule of the table only, see FILTER_GO(). */
#define FILTER_GO_      UINT32_C(0x5b000000)
#define FILTER_GO_MASK_ UINT32_C(0xff000000)

/* Stand for two random numbers that PID 1 draws before it loads the filter, and that only it and
 * its file operations know. Programs are started by execve(), which leaves nothing of them; a
 * filter of their own, loaded at each start, would say the same and cost a tenth of a millisecond.
 */
#define FILTER_PASS_FIRST  UINT32_C(0x50a55001)
#define FILTER_PASS_SECOND UINT32_C(0x50a55002)

#endif
