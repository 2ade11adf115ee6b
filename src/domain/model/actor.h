/* SPDX-License-Identifier: Apache-2.0 */
/* The actor that caused an event; stored with every event. */
#ifndef DOMAIN_MODEL_ACTOR_H
#define DOMAIN_MODEL_ACTOR_H

enum actor_kind {
    ACTOR_ADM, /* an administrator */
    ACTOR_AGT, /* an agent */
    ACTOR_ATM, /* an automation, including the daemon itself */
    ACTOR_KIND_COUNT_,
};

extern const char *const actor_kind_names[ACTOR_KIND_COUNT_ + 1];

enum { OWNER_MAX = 48 };

struct actor {
    enum actor_kind kind;
    char id[OWNER_MAX]; /* "uid:0", "tok_…", "daemon" */
};

#define ACTOR_DAEMON ((struct actor){ .kind = ACTOR_ATM, .id = "daemon" })

#endif
