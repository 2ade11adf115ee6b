/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of an audited run: everything public passes and is recorded. */
#ifndef ENGINE_EGRESS_LEARN_AUDIT_POLICY_H
#define ENGINE_EGRESS_LEARN_AUDIT_POLICY_H

#include "base/buf.h"
#include "base/err.h"

/* The base (empty: none) with `unlisted: {access: public}`. Its endpoints restrict their
 * destinations as before, and lists of unlisted addresses stay. The answer is
 * {"policy": "…"}. */
int learn_audit_policy(struct str base, struct buf *out, struct err *e);

#endif
