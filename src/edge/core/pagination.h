/* SPDX-License-Identifier: Apache-2.0 */
/* Paginated lists of sandboxes for the APIs of other vendors: with a limit and a cursor for the
 * next page. */
#ifndef EDGE_CORE_PAGINATION_H
#define EDGE_CORE_PAGINATION_H

#include "edge/core/call.h"

enum { SANDBOX_PAGE_CURSOR = 64 + ID_MAX };

struct sandbox_page {
    struct call *call;
    struct store_query query; /* completed, with one extra row if there are further pages */
    size_t limit;
    void (*answer)(struct sandbox_page *p);
};

/* Allocates the call's state, whose first member is a page. */
void *sandbox_page_new(struct call *c, size_t size, void (*answer)(struct sandbox_page *p));
/* Reads the cursor from a query parameter. False: the call is answered. */
bool sandbox_page_after(struct sandbox_page *p, const char *parameter);
void sandbox_page_cursor(const struct sandbox_record *last, char ret[SANDBOX_PAGE_CURSOR]);
/* Filters by these labels, in addition to those that the caller requires. False: the call is
 * answered. */
bool sandbox_page_labels(struct sandbox_page *p, const struct json_map *asked);
/* Starts the query, with the limit of the parameter `limit`. */
void sandbox_page_query(struct sandbox_page *p, uint64_t usual, uint64_t most);

#endif
