/* What each caller may have of connections, requests in flight and memory. */
#ifndef API_SHARES_H
#define API_SHARES_H

#include "api/call.h"
#include "config/config.h"
#include "http/server.h"

struct api;

/* Fills the limits of the server that is about to be made. */
void shares_open(struct api *a, struct http_config *http);

/* Counts the call and its connection as its caller's. False: the caller has its share, and it is
 * answered. */
bool shares_admit(struct call *c);

/* Counts n more bytes of an upload as its owner's and its family's of tokens, before they are
 * written; -ERR_QUOTA. The hold is dropped with the file. */
int shares_take_upload(struct api *a, const char *owner, const char *family, uint64_t n,
                       struct quota_hold *h, struct err *e);

/* Before a signed link is compared with up to n others, which its client need not be known for.
 * False: there were too many comparisons lately, or n is too many, and the call is answered. */
bool shares_may_check_link(struct call *c, uint64_t n);
/* So many comparisons were made. */
void shares_count_link_checks(const struct call *c, uint64_t n);

/* Connections of TLS: unauthenticated, and all. */
unsigned shares_of_strangers(const struct config *c);
unsigned shares_of_tls(const struct config *c);

#endif
