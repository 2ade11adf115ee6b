/* SPDX-License-Identifier: Apache-2.0 */
/* Capability sets of the calling thread, as 64-bit masks. Does not allocate. */
#ifndef LIB_PROC_CAPS_H
#define LIB_PROC_CAPS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/* Sets permitted and effective to `mask`, as far as it is permitted now, and inheritable to
 * `inheritable`, as far as it is in the mask. */
int caps_set(uint64_t mask, uint64_t inheritable, struct err *e);

uint64_t caps_permitted(void);

/* Drops from the bounding set the capabilities that are in `have` but not in `keep`, with one
 * system call each. `have` is a superset of the bounding set; UINT64_MAX: all that the kernel
 * knows. Needs CAP_SETPCAP. */
int caps_bound(uint64_t have, uint64_t keep, struct err *e);

/* Sets the ambient set to `mask`, which then survives an execve() by any user. */
int caps_ambient(uint64_t mask, struct err *e);

/* "CHOWN" or "cap_chown", in any case; false if there is no such capability. */
bool caps_from_name(struct str name, int *ret);
const char *caps_name(int cap);

#endif
