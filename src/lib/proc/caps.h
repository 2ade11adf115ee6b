/* Capability sets of the calling thread, as 64-bit masks. Raw system calls: nothing allocates. */
#ifndef PROC_CAPS_H
#define PROC_CAPS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/* Permitted and effective become exactly `mask` (of what is permitted now), inheritable
 * `inheritable`. */
int caps_set(uint64_t mask, uint64_t inheritable, struct err *e);

uint64_t caps_permitted(void);

/* Takes everything not in `keep` from a bounding set that is `have` or less (UINT64_MAX: whatever
 * the kernel knows); one system call for each. Needs CAP_SETPCAP. */
int caps_bound(uint64_t have, uint64_t keep, struct err *e);

/* Makes the ambient set exactly `mask`, so that it survives an execve() of any user. */
int caps_ambient(uint64_t mask, struct err *e);

/* "CHOWN" or "cap_chown", in any case; false if there is no such capability. */
bool caps_from_name(struct str name, int *ret);
const char *caps_name(int cap);

#endif
