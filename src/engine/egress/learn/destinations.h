/* SPDX-License-Identifier: Apache-2.0 */
/* Destinations of a log, each once: what was reached, refused, or only looked up. Tables are
 * bounded, because the workload chooses how many destinations there are. */
#ifndef ENGINE_EGRESS_LEARN_DESTINATIONS_H
#define ENGINE_EGRESS_LEARN_DESTINATIONS_H

#include "engine/egress/learn/record.h"

enum {
    LEARN_DESTINATIONS_MAX = 4096, /* of each table */
    LEARN_ADDRESSES_MAX = 16,      /* of a destination */
    LEARN_PROGRAMS_MAX = 16,       /* of a destination */
};

struct learn_destination {
    struct host host;
    uint16_t port; /* 0: a name that was looked up */
    uint64_t count;
    struct address at[LEARN_ADDRESSES_MAX]; /* of a name: the addresses that were dialled */
    size_t n_at;
    char *programs[LEARN_PROGRAMS_MAX]; /* owned */
    size_t n_programs;
    bool more_at, more_programs, odd_program, no_program; /* the lists above are incomplete */
    char code[LEARN_CODE_MAX], protocol[LEARN_CODE_MAX];  /* of the last refusal */
    const char *left_out; /* why it is not proposed; NULL: it is. A constant. */
    bool suspicious;      /* … because it looks as if it carried data */
    bool covered;         /* by an endpoint of the base */
};

struct learn_table {
    struct learn_destination **list; /* in the order of the log */
    size_t n;
    uint64_t missed;  /* events of destinations beyond the limit */
    uint32_t *index_; /* open addressing: position + 1 */
};

struct learn_log {
    struct learn_table opened, refused, asked;
    uint64_t connections, unreadable, unknown, only_recorded;
};

void learn_log_init(struct learn_log *l);
void learn_log_done(struct learn_log *l);

/* Adds a line; one that cannot be read is counted. */
void learn_log_add(struct learn_log *l, struct str line);

/* NULL if the table does not have it. */
struct learn_destination *learn_table_find(const struct learn_table *t, struct str host,
                                           uint16_t port);

/* Whether any port of the host is in the table. */
bool learn_table_has_host(const struct learn_table *t, struct str host);

#endif
