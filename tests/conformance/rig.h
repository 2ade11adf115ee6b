/* SPDX-License-Identifier: Apache-2.0 */
/* A backend under test, driven through the contract as the control plane drives it.
 *
 *     CONFORMANCE(a_program_exits)
 *     {
 *         struct subject s;
 *         struct task j;
 *
 *         subject_ready(r, &s);
 *         task_sh(&s, &j, "exit 7");
 *         CHECK_ENDED(&j, BACKEND_EXITED, 7);
 *         subject_end(&s);
 *     }
 *
 * Every CONFORMANCE test runs on every row of the registry, as root and as a plain user, and each
 * time nothing may be left of it: no process, control group, directory or descriptor. Tests of one
 * backend are in the folder of its name. */
#ifndef TESTS_CONFORMANCE_RIG_H
#define TESTS_CONFORMANCE_RIG_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "backends/backend.h"
#include "harness/tap.h"
#include "lib/ipc/listeners.h"
#include "lib/loop/loop.h"
#include "engine/runtime/launcher.h"

enum { RIG_LAUNCHERS_MAX = 256, RIG_FOUND_MAX = 8 };
#define RIG_PATIENCE (20 * NS_PER_S)
#define RIG_OWNER    "o-rig.1"

/* One life of the daemon, as far as a backend sees it. */
struct rig {
    const struct backend_ops *ops;
    struct backend_context context;
    struct loop loop;
    struct backend *x;
    struct profile *profile;
    char path[64];
    struct launcher launchers[RIG_LAUNCHERS_MAX]; /* all there ever were; the socket is not here */
    size_t n_launchers;
    int refuse_launchers;           /* so many times a launcher cannot be had */
    int dead_launchers;             /* so many times it is one that died at once */
    int taken;                      /* how often one was asked for */
    void (*on_take)(struct rig *r); /* called from inside */
    const char *die_step;           /* where the next die_times launchers die */
    int die_times;
    size_t n_hung; /* of the launchers, the first */
};

/* A box, and what was told about it. */
struct subject {
    struct rig *rig;
    struct backend_box *b;
    int provisioned, ready, adopted, torn_down, gone, used; /* how often */
    int assigned;                                           /* how often */
    int r;                                                  /* of the last one */
    struct err e;
    struct backend_found found[RIG_FOUND_MAX];
    size_t n_found;
    struct backend_report report;
    struct backend_usage usage;
    bool egress;                /* asked for */
    bool prepared;              /* asked for: without an owner */
    int listening, told;        /* how often listeners and who were */
    struct listeners listeners; /* of the last one */
    int held, shown;            /* how often standstills and what it wrote were */
    bool frozen;                /* of the last standstill */
    int upper;                  /* of the last that was shown; -1: none */
    uint64_t tag;               /* of the last `who`, and what it said */
    size_t n_holders;
    char exe[256];
    int pid;
    char reason[256];
    char id[ID_MAX];
    void (*on_provisioned)(struct subject *s); /* called from inside */
};

/* A process, its output, and what was told about it. */
struct task {
    struct rig *rig;
    struct backend_process p;
    int started, signalled, ended, r;
    struct err e;
    struct backend_end end;
    char msg[240];
    struct buf out, err;
};

void rig_open(struct rig *r, const struct backend_ops *ops);
void rig_close(struct rig *r);   /* and nothing may be left */
void rig_restart(struct rig *r); /* the daemon dies and comes back; boxes were freed */
void rig_kill_launchers(struct rig *r);
void rig_hang_launchers(struct rig *r);  /* they do nothing, and are not waited for */
void rig_wake_launchers(struct rig *r);  /* and waited for, since their daemon is gone */
const char *rig_tag(void);               /* of this test's control groups */
void rig_reap(struct rig *r, bool wait); /* what launchers left to us */
/* Runs the loop until the counter is at least n. */
void rig_await(struct rig *r, const int *counter, int n, const char *what);
void rig_idle(struct rig *r, int64_t time);
bool rig_has_dir(struct rig *r, const char *id);
/* The control groups of this test that match, in hierarchies with limits. */
size_t rig_count_groups(const char *pattern);

#define AWAIT(r, counter) rig_await((r), &(counter), 1, #counter)

void subject_init(struct rig *r, struct subject *s); /* a new box, nothing asked yet */
void subject_init_id(struct rig *r, struct subject *s, const char *id);
struct backend_spec subject_spec(struct rig *r);
void subject_provision(struct subject *s);              /* asked */
void subject_ready(struct rig *r, struct subject *s);   /* … and answered, and ready */
void subject_prepare(struct rig *r, struct subject *s); /* the same without an owner */
void subject_teardown(struct subject *s);               /* until it is down, without failure */
void subject_end(struct subject *s);                    /* and freed */
void subject_free(struct subject *s);                   /* lives on */
void subject_adopt(struct rig *r, struct subject *s, const char *id);

void task_init(struct task *j, struct subject *s);
void task_start(struct subject *s, struct task *j, const struct process_start *start); /* asked */
void task_sh(struct subject *s, struct task *j, const char *script); /* … and followed to its end */
void task_follow(struct task *j); /* reads until both outputs and the process have ended */
void task_drain(struct task *j);  /* reads until both outputs have ended */
void task_done(struct task *j);
struct process_start sh(const char *script); /* good until the next call */

#define CHECK_ENDED(j, how_, status_)                                                              \
    do {                                                                                           \
        if ((j)->r < 0)                                                                            \
            FAIL("it did not start: %s", (j)->e.msg);                                              \
        CHECK_INT((j)->started, 1);                                                                \
        CHECK_INT((j)->ended, 1);                                                                  \
        CHECK_INT((j)->end.how, (how_));                                                           \
        CHECK_INT((j)->end.status, (status_));                                                     \
    } while (0)

void conformance_(void (*body)(struct rig *r), const struct backend_ops *only, bool as_root);

#define CONFORMANCE_OF(only, id)                                                                   \
    static void body_##id(struct rig *r);                                                          \
    TEST(id##_as_root)                                                                             \
    {                                                                                              \
        conformance_(body_##id, (only), true);                                                     \
    }                                                                                              \
    TEST(id##_as_user)                                                                             \
    {                                                                                              \
        conformance_(body_##id, (only), false);                                                    \
    }                                                                                              \
    static void body_##id(struct rig *r)
#define CONFORMANCE(id) CONFORMANCE_OF(NULL, id)
/* A test of a backend's own, in the folder of its name. */
#define CONFORMANCE_LOCAL(id) CONFORMANCE_OF(&backend_local, id)

#endif
