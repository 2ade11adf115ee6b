/* SPDX-License-Identifier: Apache-2.0 */
/* A backend in memory: boxes without a sandbox, processes that are pipes. It is the whole
 * registry of the program that links it. What runs in its boxes outlives control planes of the same
 * program, as it outlives daemons in earnest: close one, open another, and it is found again. */
#ifndef TESTS_FAKE_BACKEND_H
#define TESTS_FAKE_BACKEND_H

#include "backends/backend.h"
#include "lib/ipc/listeners.h"

extern const struct backend_ops backend_fake; /* "ext.fake" */

/* A process as it is inside. */
struct fake_process {
    uint32_t proc;
    uint64_t cookie;
    unsigned flags;
    bool ended, forgotten;
    struct backend_end end;
    int in, out, err; /* its own ends; a terminal is all three, as a socket */
    int outer[3];     /* what the box keeps of the other ends, as PID 1 does */
    int sig;          /* the last signal it was sent */
    enum backend_scope scope;
    struct backend_process *owner;
};

/* How the next ones go. */
extern struct fake_plan {
    const char *fail_provision, *fail_ready, *fail_start, *fail_reattach; /* NULL: they work */
    const char *fail_listeners, *fail_who, *fail_assign;
    bool reattach_waits;              /* until fake_reattach_held() */
    const struct backend_who *who;    /* what is answered; NULL: nobody holds it */
    char assigned[BACKEND_OWNER_MAX]; /* owner that a prepared box got last */
    struct backend_usage usage;       /* what every look inside finds … */
    int64_t cpu_a_look;               /* … and how much more processor time each time */
    unsigned looks;
} fake_plan;

size_t fake_box_count(void); /* that were provisioned and not torn down */
struct fake_process *fake_find(const char *box, uint32_t proc); /* NULL: there is none */
void fake_reattach_held(void);
struct fake_process *fake_last(const char *box);
void fake_write(struct fake_process *p, int channel, const char *text);
/* It ends, and so do its descriptors. With `keep_open` somebody it started holds on to them. */
void fake_end(struct fake_process *p, enum backend_how how, int status, bool keep_open);
/* A socket of the network boundary, as the box keeps it: TCP and UDP on a loopback address and a
 * port of its own, without IPv6 and SOCKETS, and REJECTS without anything to read. -1: there is
 * none. */
int fake_listener(const char *box, enum listener_slot slot);
void fake_kill_box(const char *box); /* → gone */
void fake_forget_all(void);

#endif
