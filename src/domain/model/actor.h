/* Who did it: recorded with every event. */
#ifndef MODEL_ACTOR_H
#define MODEL_ACTOR_H

enum actor_kind {
    ACTOR_ADM, /* a person who administers */
    ACTOR_AGT, /* an agent */
    ACTOR_ATM, /* an automation, the daemon itself among them */
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
