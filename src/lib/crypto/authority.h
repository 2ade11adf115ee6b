/* A certificate authority of our own, for one domain: what trusts it is told who serves that domain
 * and its sandboxes, and nothing about any other. All texts are PEM, and appended. */
#ifndef CRYPTO_AUTHORITY_H
#define CRYPTO_AUTHORITY_H

#include "base/buf.h"
#include "base/err.h"

/* A new one: its certificate, good for ten years, and its key. */
int crypto_authority_make(const char *domain, struct buf *ret_certificate, struct buf *ret_key,
                          struct err *e);

/* A certificate for the domain and every name directly below it, good for 825 days. -ERR_INVALID if
 * the authority is none, or another domain's. */
int crypto_authority_issue(struct str authority, struct str authority_key, const char *domain,
                           struct buf *ret_certificate, struct buf *ret_key, struct err *e);

#endif
