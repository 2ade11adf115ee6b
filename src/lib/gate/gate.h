/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of egress workers: a filter of the kernel on where they may connect to.
 *
 * Every worker is in a group of cgroup v2 of its own, below one group that BPF programs are
 * attached to (lib/gate/program.h): cgroup/connect4 and connect6 for connect(), cgroup/sendmsg4 and
 * sendmsg6 for datagrams with an address. They allow public addresses that are not this machine's
 * own, and deny every other destination with EPERM unless a map has it as a place. A worker without
 * privilege can neither leave its group nor change the maps, so this holds for one that was taken
 * over.
 *
 *     sandboxer-TAG-egress.N/     one daemon, as long as it has workers; programs are attached here
 *         w1/ w2/ …               one worker each
 *
 * All of it is the supervisor's. Whose the groups are is known by a lock on a file of the upper
 * one, which its supervisor holds: the next daemon with the same tag removes groups without a
 * holder and ends what is in them.
 *
 * Needs cgroup v2, CAP_BPF and CAP_NET_ADMIN when it is opened, and CAP_BPF later on kernels before
 * 5.19. A gate that is not open filters nothing: each function below then does nothing and
 * succeeds. */
#ifndef LIB_GATE_GATE_H
#define LIB_GATE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/net/address.h"

enum {
    GATE_PLACES_MAX = 4096, /* of one worker */
    GATE_ENTRIES_MAX = 65536,
    GATE_OWN_MAX = 4096,
    GATE_PROGRAMS = 4,
};

/* An address and a port, 0 for every port, in network order; IPv4 as ::ffff:a.b.c.d. Fixed layout:
 * lists of them travel between processes. */
struct gate_place {
    uint8_t address[16];
    uint8_t port[2];
};

/* Key of the map of places; the key of the map of own addresses is `address` alone. */
struct gate_key {
    uint64_t group; /* cgroup id of the worker; 0: every worker */
    uint8_t address[16];
    uint8_t port[2];
    uint8_t zero[6];
};

struct gate_place gate_place_of(const struct address *a, uint16_t port);
int gate_place_compare(const void *a, const void *b); /* for qsort() */
/* Whether a control plane may ask for these: in ascending order, each once, no metadata service and
 * no port of cluster control planes. */
int gate_places_check(const struct gate_place *list, size_t n, struct err *e);

struct gate_group;

struct gate {
    bool open;
    int top;         /* directory that our groups are in */
    int dir;         /* the parent group of the workers' groups; -1 without groups */
    int lock;        /* … and its cgroup.procs, locked */
    int places, own; /* maps */
    int programs[GATE_PROGRAMS];
    int news;                  /* netlink: this machine's addresses have changed; for poll() */
    char prefix[64], name[80]; /* of `dir` */
    uint64_t made;             /* groups of workers so far */
    struct gate_group *groups;
    size_t n, cap;
    size_t ended; /* of them: their workers have */
    uint8_t (*own_list)[16];
    size_t own_n;
};
#define GATE_CLOSED                                                                                \
    ((struct gate){ .top = -1,                                                                     \
                    .dir = -1,                                                                     \
                    .lock = -1,                                                                    \
                    .places = -1,                                                                  \
                    .own = -1,                                                                     \
                    .programs = { -1, -1, -1, -1 },                                                \
                    .news = -1 })

/* Whether the programs load here, and why not. */
int gate_probe(struct err *e);

/* `top` is a directory of cgroup v2, owned by the caller; -1 without cgroup v2. `tag` names the
 * daemon (engine/runtime/cgroup.h). Removes the groups of dead daemons with the same tag. */
int gate_open(struct gate *g, int top, const char *tag, struct err *e);
/* Ends what is still in the groups, and removes them. */
void gate_close(struct gate *g);

/* Makes the group of a new worker; `worker` is a number of the caller's. */
int gate_add(struct gate *g, uint64_t worker, struct err *e);
/* The process of the last gate_add(), for gate_ended(); 0: it could not be started. */
void gate_started(struct gate *g, pid_t pid);
/* In that process, before it becomes the worker: it joins the group of the last gate_add(). */
int gate_enter(const struct gate *g, struct err *e);
/* Allows a place to every worker: a resolver or a proxy of the operator's, metadata or not. */
int gate_except(const struct gate *g, const struct address *a, uint16_t port, struct err *e);
/* Replaces the places of a worker; the list was checked. -ERR_NOT_FOUND: there is no such
 * worker. */
int gate_set(struct gate *g, uint64_t worker, const struct gate_place *list, size_t n,
             struct err *e);
/* A process was reaped: one of these or another one. Its places are gone when this returns. */
void gate_ended(struct gate *g, pid_t pid);

/* Removes groups of workers that ended; false: some are left, call it again in a while. */
bool gate_tidy(struct gate *g);
/* Reads this machine's addresses again: when `news` is readable. */
void gate_refresh(struct gate *g);

/* --- private to the module --- */

struct gate_group {
    uint64_t worker;
    uint64_t number; /* of its name */
    uint64_t id;     /* as programs see it */
    pid_t pid;
    bool over;
    struct gate_place *list; /* sorted */
    size_t n;
};

int gate_own_open_(struct gate *g, struct err *e);
void gate_sweep_(int top, const char *prefix);
int gate_make_dir_(struct gate *g, struct err *e); /* with the programs attached */
int gate_attach_(const struct gate *g, struct err *e);

#endif
