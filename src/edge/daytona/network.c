/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/internal.h"

/* Adds the words of "a, b ,c". */
static int add_allow_words(struct call *c, const char *text, const char **to, size_t *n,
                           struct err *e)
{
    struct str rest = str_from(text), word;

    while (rest.n) {
        rest = str_cut(rest, ',', &word);
        word = str_trim(word);
        if (!word.n)
            continue;
        if (*n == REQUEST_ALLOW_MAX)
            return err_set(e, ERR_INVALID, "allow lists: more than %d entries", REQUEST_ALLOW_MAX);
        to[(*n)++] = arena_dup(&c->own, word);
    }
    return 0;
}

int daytona_network_read(struct call *c, const struct daytona_network *n,
                         struct egress_settings *ret, struct err *e)
{
    const char **all = call_alloc(c, REQUEST_ALLOW_MAX, sizeof *all);
    size_t count = 0;
    int r = add_allow_words(c, n->addresses, all, &count, e);

    if (r >= 0)
        r = add_allow_words(c, n->domains, all, &count, e);
    if (r < 0)
        return r;
    if (n->block_all && count)
        return err_set(e, ERR_INVALID, "networkBlockAll: cannot be combined with allow lists");
    *ret = (struct egress_settings){ .allow = { all, count },
                                     .internet_given = n->block_all || count };
    return 0;
}

int daytona_network_fill(struct call *c, const struct daytona_network *n,
                         struct create_request *ret, struct err *e)
{
    struct egress_settings asked;
    int r = daytona_network_read(c, n, &asked, e);

    return r < 0 ? r : egress_settings_fill(&asked, control_catalog(c->api->control), ret, e);
}
