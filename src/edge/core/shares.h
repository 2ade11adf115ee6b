/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas per caller: connections, requests in flight, and memory. */
#ifndef EDGE_CORE_SHARES_H
#define EDGE_CORE_SHARES_H

#include "edge/core/call.h"
#include "domain/config/config.h"
#include "lib/http/server.h"

struct api;

/* Fills the limits of the HTTP server to be created. */
void shares_open(struct api *a, struct http_config *http);

/* Charges the call and its connection to its caller. False: the quota is exhausted, and the call is
 * answered. */
bool shares_admit(struct call *c);

/* Charges n more bytes of an upload to its owner and token family before they are written;
 * -ERR_QUOTA. The hold is dropped with the file. */
int shares_take_upload(struct api *a, const char *owner, const char *family, uint64_t n,
                       struct quota_hold *h, struct err *e);

/* Appends a piece of a body to a file. -ERR_TOO_BIG if the file would exceed images.max_bytes, or
 * leave less than images.free_min free on the disk. */
int store_body_piece(int fd, uint64_t *size, const struct config *config, struct str data,
                     struct err *e);

/* Call before a signed link, whose client may be unauthenticated, is compared with up to n others.
 * False: the rate limit is reached or n is too large, and the call is answered. */
bool shares_may_check_link(struct call *c, uint64_t n);
/* Charges n comparisons. */
void shares_count_link_checks(const struct call *c, uint64_t n);

/* Limits of TLS connections: unauthenticated, and in total. */
unsigned shares_of_strangers(const struct config *c);
unsigned shares_of_tls(const struct config *c);

#endif
