/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox that runs without a daemon: a private egress worker serves the sandbox's
 * listeners according to a policy. Nothing passes before the policy is in force or while no worker
 * runs. A worker that dies or hangs while the program runs is replaced: at once, then after growing
 * pauses, and never after eight deaths in a row. Connections end with their worker. New connections
 * wait half a second for the next worker; then they are refused until it runs. `uses` of the policy
 * count as spent after the first worker, because its counters died with it. */
#ifndef CLI_RUN_NETWORK_H
#define CLI_RUN_NETWORK_H

#include <poll.h>
#include <sys/types.h>

#include "cli/denials.h"
#include "cli/run/network_options.h"
#include "engine/egress/wire.h"
#include "lib/ipc/control.h"
#include "lib/ipc/listeners.h"

enum { NETWORK_LISTENERS = LISTENER_DNS_TCP6 + 1 }; /* those that programs connect to */

struct network {
    const struct network_options *options;
    pid_t pid;
    int sock; /* readable when network_receive() has work to do; -1: the worker has ended */
    char id[ID_MAX];
    int file, items; /* memfds with the texts of the policy; -1: none */
    int audit;       /* for writing, the worker's */
    int seen;        /* the same for reading; -1: it is not a file */
    int before;      /* the record before `seen`, to which the worker may still have written */
    off_t copied, copied_before; /* bytes of both that options->record has */
    struct wire_used used;
    struct network_question {
        bool asked;    /* and not answered by PID 1 */
        uint32_t tag;  /* of the worker … */
        unsigned life; /* … that this is: the next one's have the same */
    } questions[CONTROL_WHO_MAX];
    struct denials denials;
    /* the worker's life */
    struct listeners listeners;
    bool served;      /* a policy was in force: the program may run */
    bool over;        /* too many workers died: the network stays down */
    unsigned life;    /* workers before this one */
    unsigned deaths;  /* in a row */
    unsigned silent;  /* pings that it did not answer */
    int64_t ready_ns; /* CLOCK_MONOTONIC: since when the policy is in force; 0: it is not */
    int64_t down_ns;  /* when the network went down; 0: it is up */
    int64_t restart_ns, ping_ns; /* when the next worker is due; the next ping */
};

#define NETWORK_NONE                                                                               \
    {                                                                                              \
        .sock = -1, .file = -1, .items = -1, .audit = -1, .seen = -1, .before = -1, .listeners = { \
            { [0 ... LISTENER_COUNT_ - 1] = -1 }                                                   \
        }                                                                                          \
    }

enum network_news {
    NETWORK_NOTHING,
    NETWORK_READY, /* the policy is in force for the first time */
    NETWORK_WHO,   /* PID 1 is to be asked: `who`; then network_answer() */
    NETWORK_GONE,  /* the worker died, or makes no sense: network_lost() */
};

/* o is complete, and stays the caller's, and where it is. Starts the worker, which gets ready
 * meanwhile. */
int network_init(struct network *n, const struct network_options *o, struct err *e);
void network_done(struct network *n);

/* After NETWORK_GONE, or when network_tick() returns it. `served`: schedules another worker, unless
 * too many have died. */
void network_lost(struct network *n);
/* When network_tick() is due, on CLOCK_MONOTONIC; 0: not scheduled. */
int64_t network_due(const struct network *n);
/* Starts a worker that is due; true: the worker hangs. */
bool network_tick(struct network *n);
/* Refuses connections while no worker runs. n may be NULL: nothing to poll. */
void network_poll(const struct network *n, struct pollfd ret[static NETWORK_LISTENERS]);
void network_refuse(const struct network *n, const struct pollfd seen[static NETWORK_LISTENERS]);

/* After NETWORK_GONE: whether the worker ended with an error, which it has printed itself. */
bool network_worker_failed(struct network *n);

/* Hands over the listeners of the sandbox and the policy. NETWORK_READY follows, or a failure. */
int network_serve(struct network *n, const char *id, struct ipc_fds *fds, uint32_t slots,
                  struct err *e);

/* Receives one message of the worker. An error is a mistake in the policy. */
int network_receive(struct network *n, enum network_news *ret, struct wire_who *who, struct err *e);

/* A slot for a question to PID 1, below CONTROL_WHO_MAX; -1: all slots are taken, and the worker
 * was sent an empty answer. */
int network_add_question(struct network *n, uint32_t tag);
/* Passes on PID 1's answer to a question; m is NULL if PID 1 has no answer. Answers to unknown
 * questions and to questions of an earlier worker are dropped. */
void network_answer(struct network *n, uint32_t question, const struct control_who_is *m);

/* After the sandbox has ended: receives the worker's last messages and prints the denials. */
void network_end(struct network *n, bool quiet);

/* Holders as the worker wants them: one program, and the ancestors that all have in common. */
void network_who_is(const struct control_who_is *m, struct wire_who_is *ret);

#endif
