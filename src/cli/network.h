/* The way out of a sandbox that we run without a daemon: a private egress worker, which serves the
 * sandbox's listeners by a policy. Nothing passes before the policy is in force, and nothing when
 * the worker is gone. */
#ifndef CLI_NETWORK_H
#define CLI_NETWORK_H

#include <sys/types.h>

#include "cli/denials.h"
#include "cli/network_options.h"
#include "egress/wire.h"
#include "ipc/control.h"
#include "ipc/listeners.h"

struct network {
    const struct network_options *options;
    pid_t pid;
    int sock; /* readable when network_hear() has something to do; -1: the worker is gone */
    char id[ID_MAX];
    int file, items; /* memfds with the texts of the policy; -1: none */
    int audit;       /* for writing, the worker's */
    int seen;        /* the same for reading; -1: it is not a file */
    struct wire_used used;
    unsigned asked; /* questions about holders that PID 1 has not answered */
    struct denials denials;
};

#define NETWORK_NONE                                                                               \
    {                                                                                              \
        .sock = -1, .file = -1, .items = -1, .audit = -1, .seen = -1                               \
    }

enum network_news {
    NETWORK_NOTHING,
    NETWORK_READY, /* the policy is in force */
    NETWORK_WHO,   /* PID 1 is to be asked: `who`; then network_answer() */
    NETWORK_GONE,  /* the worker died: there is no network any more */
};

/* o is complete, and stays the caller's, and where it is. Starts the worker, which gets ready
 * meanwhile. */
int network_init(struct network *n, const struct network_options *o, struct err *e);
void network_done(struct network *n);

/* After NETWORK_GONE: whether the worker ended with an error, which it has said itself. */
bool network_said_why(struct network *n);

/* Hands over the listeners of the sandbox and the policy. NETWORK_READY follows, or a failure. */
int network_serve(struct network *n, const char *id, struct ipc_fds *fds, uint32_t slots,
                  struct err *e);

/* One message of the worker's. A failure is one of the policy: what is wrong with it. */
int network_hear(struct network *n, enum network_news *ret, struct wire_who *who, struct err *e);

/* Whether PID 1 may be asked now; otherwise the answer is that nobody knows. */
bool network_may_ask(const struct network *n);
/* PID 1's answer to NETWORK_WHO with that tag; m is NULL if there is none. */
void network_answer(struct network *n, uint32_t tag, const struct control_who_is *m);

/* The sandbox is gone: hears what the worker still has to tell, and says what was refused. */
void network_end(struct network *n, bool quiet);

/* Holders as the worker wants them: one program, and the ancestors that all have in common. */
void network_who_is(const struct control_who_is *m, struct wire_who_is *ret);

#endif
