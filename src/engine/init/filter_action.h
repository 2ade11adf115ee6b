/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_INIT_FILTER_ACTION_H
#define ENGINE_INIT_FILTER_ACTION_H

#include <linux/seccomp.h>
#include <stdint.h>

#include "lib/ipc/kernel.h"

/* Actions of the system call filter. */
#define FILTER_ALLOW         SECCOMP_RET_ALLOW
#define FILTER_REFUSE(error) (SECCOMP_RET_ERRNO | (error))

/* Refused unless the sandbox has that bit of enum kernel_bits: a placeholder that PID 1 replaces
 * before it loads the program. The kernel does not know this action and would kill the process. */
#define FILTER_UNLESS(bit, error) (FILTER_UNLESS_ | (uint32_t)(bit) << 16 | (error))
#define FILTER_UNLESS_            UINT32_C(0x5a000000)
#define FILTER_UNLESS_MASK_       UINT32_C(0xff000000)

/* Within a rule of the table only, see FILTER_GO(). */
#define FILTER_GO_      UINT32_C(0x5b000000)
#define FILTER_GO_MASK_ UINT32_C(0xff000000)

/* Placeholders for two random numbers that PID 1 draws before it loads the filter, and that only
 * PID 1 and its file operations know. execve() removes them from memory before a program runs. A
 * second filter, loaded at each start, would have the same effect and cost a tenth of a
 * millisecond. */
#define FILTER_PASS_FIRST  UINT32_C(0x50a55001)
#define FILTER_PASS_SECOND UINT32_C(0x50a55002)

#endif
