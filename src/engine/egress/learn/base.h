/* SPDX-License-Identifier: Apache-2.0 */
/* The policy that a proposal begins with. Endpoints that the log needs stay as they are written,
 * with their rules, programs and limits, so that a proposal is never wider than its base there. */
#ifndef ENGINE_EGRESS_LEARN_BASE_H
#define ENGINE_EGRESS_LEARN_BASE_H

#include "base/arena.h"
#include "engine/egress/learn/destinations.h"
#include "lib/json/writer.h"

struct learn_base {
    const struct json *document; /* NULL: there is no base */
    bool *used;                  /* of each endpoint, in the order of the document */
    size_t n, kept;              /* endpoints */
    bool unlisted;               /* it allows destinations that it does not list */
};

/* Reads the base (empty: none), and marks destinations that its endpoints cover. An entry that has expired covers
 * nothing. keep: endpoints that the log does not need stay, too. */
int learn_base_read(struct str yaml, bool keep, struct learn_log *l, struct arena *a,
                    struct learn_base *ret, struct err *e);

/* Whether the decision of the snapshot about a destination is to let it pass. */
struct egress_snapshot;
struct egress_explanation;
bool learn_is_allowed(const struct egress_snapshot *s, const struct learn_destination *d,
                      const char *program, struct egress_explanation *ret);

/* Writes the kept entries as members of network_policies. The caller writes the one with the key `except`. */
void learn_base_write_entries(const struct learn_base *b, struct str except, struct json_writer *w);
/* The kept endpoints of one entry, as items of a list. */
void learn_base_write_endpoints(const struct learn_base *b, struct str key, struct json_writer *w);
/* Writes the other members of the document, but for `unlisted`. */
void learn_base_write_others(const struct learn_base *b, struct json_writer *w);

/* A key for the learned entry: "learned", or "learned-2", … where that one restricts programs or time. */
void learn_base_key(const struct learn_base *b, char out[static 32]);

#endif
