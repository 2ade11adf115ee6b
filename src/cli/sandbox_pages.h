/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sandboxes, fetched page by page, as one answer: {"sandboxes":[…]}. */
#ifndef CLI_SANDBOX_PAGES_H
#define CLI_SANDBOX_PAGES_H

#include "cli/api_call.h"
#include "lib/json/build.h"

struct sandbox_filter {
    const struct option_list *states, *labels; /* NULL: any */
    const char *profile;                       /* NULL: any */
    uint64_t limit;                            /* so many rows at most; 0: all */
    bool usage;                                /* with samples of their use */
};

struct sandbox_pages {
    struct fetched_page *last; /* each keeps the memory of its rows */
    uint64_t n;
    struct arena arena;
    struct json_build rows;
    struct json list, answer;
};

/* A status. p is initialised here, and released by the caller in any case. */
int sandbox_pages_fetch(struct sandbox_pages *p, const struct verb *v, const struct common *common,
                        const struct sandbox_filter *filter);
/* The same for n sandboxes by their ids or names. */
int sandbox_pages_fetch_named(struct sandbox_pages *p, const struct verb *v,
                              const struct common *common, const struct sandbox_filter *filter,
                              char *const *names, int n);
void sandbox_pages_done(struct sandbox_pages *p);

/* The last request, for printers of answers; not before a page was fetched. */
const struct api_call *sandbox_pages_call(const struct sandbox_pages *p);

#endif
