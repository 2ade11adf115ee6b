/* SPDX-License-Identifier: Apache-2.0 */
/* Our own certificate authority for one domain. Its name constraints limit clients' trust to that
 * domain and its sandboxes. All texts are PEM, and appended. */
#ifndef LIB_CRYPTO_AUTHORITY_H
#define LIB_CRYPTO_AUTHORITY_H

#include "base/buf.h"
#include "base/err.h"

/* A new one: its certificate, good for ten years, and its key. */
int crypto_authority_make(const char *domain, struct buf *ret_certificate, struct buf *ret_key,
                          struct err *e);

/* A certificate for the domain and every name directly below it, good for 825 days. -ERR_INVALID if
 * the authority is invalid or belongs to another domain. */
int crypto_authority_issue(struct str authority, struct str authority_key, const char *domain,
                           struct buf *ret_certificate, struct buf *ret_key, struct err *e);

#endif
