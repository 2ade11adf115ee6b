/* SPDX-License-Identifier: Apache-2.0 */
/* A real sandbox under test, driven as the command line and the daemon drive it.
 *
 *     BOX_TEST(a_program_exits)
 *     {
 *         struct box b;
 *
 *         box_open(&b);
 *         CHECK_SH(&b, "echo hi; exit 3", 3, "hi\n");
 *         box_close(&b);
 *     }
 *
 * Every BOX_TEST is two tests: its body runs as root of the machine and as a plain user, and each
 * time nothing may be left of it: no process, no control group, no descriptor. */
#ifndef TESTS_SANDBOX_BOX_H
#define TESTS_SANDBOX_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/control.h"
#include "engine/runtime/launcher.h"
#include "engine/runtime/plan.h"
#include "engine/runtime/supervisor.h"

enum { BOX_PLAIN_ID = 1000, BOX_WAIT_MS = 50000, BOX_PIDS = 300, BOX_BACKLOG = 16 };

struct box {
    struct launcher launcher;
    struct plan plan;
    int fds[2 + PLAN_LAYERS_MAX + PLAN_MOUNTS_MAX]; /* the plan's, in its order */
    size_t n_lent;                                  /* of these, mounts */
    int control;                                    /* our end */
    int pidfd;
    int32_t pid; /* PID 1, as seen from here */
    uint32_t tag;
    struct heard *stash; /* messages for somebody who has not asked yet */
};

/* Something that was started. */
struct job {
    uint32_t tag, proc;
    int32_t pid; /* as seen inside */
    int in, out, err;
};

/* How it went, and what it said. */
struct outcome {
    bool failed; /* it did not start: `failure` says why; otherwise `end` says how it ended */
    struct control_failed failure;
    struct control_exited end;
    struct buf out, err;
};

void outcome_done(struct outcome *o);

void box_test_(void (*body)(void), bool as_root);
bool box_is_root(void);

/* In steps, for tests that change something in between… */
void box_prepare(struct box *b); /* starts the launcher and fills a plan */
void box_prepare_with(struct box *b, const struct launcher_options *o); /* without /opt/inside */
void box_mount(struct box *b, const char *source, const char *target, bool writable);
void box_build(struct box *b); /* the sandbox runs */
/* …or at once. */
void box_open(struct box *b);
void box_close(struct box *b);

/* One more sandbox from the launcher of b. */
void box_open_beside(struct box *ret, const struct box *b);
void box_destroy(struct box *b);      /* without ending the launcher */
void box_expect_gone(const char *id); /* no control group of that id is left */
void box_reap_orphans(void); /* waits for what a dead launcher left to us, which must be dying */

/* Sandboxes that listen, and may outlive their connections; the first one is still open. */
/* A directory of ours with a bound socket in it. */
struct place {
    char dir[64];
    struct sockaddr_un address;
    int sock;
};

void place_init(struct place *p);
void place_done(struct place *p);
int place_connect(const struct place *p);
void box_build_listening(struct box *b, const struct place *p, uint32_t flags);
void box_open_listening(struct box *b, const struct place *p, uint32_t flags);
void box_reconnect(struct box *b, const struct place *p); /* what was not yet heard is lost */

/* Requests. box_hear() waits for the next message with that tag; what comes for others is kept. */
int box_hear(struct box *b, uint32_t tag, union supervisor_message *ret, struct ipc_fds *ret_fds);
void box_ping(struct box *b);
uint32_t box_count_procs(struct box *b);                        /* rows in PID 1's table */
int box_kill(struct box *b, uint32_t proc, int sig, bool tree); /* 0 or an errno */

/* Requests that no program of ours makes in this form, so that only tests have a client for them:
 * CONTROL_ALL with its time; ATTACH, CLOSE_STDIN and FORGET; and an answer with its pidfd. */
int supervisor_kill_all(int sock, uint32_t tag, int sig, int64_t grace_ns, struct err *e);
int supervisor_request_one(int sock, uint32_t tag, enum control_type type, uint32_t proc,
                           struct err *e);
int launcher_answer(const struct launcher *l, union launch_answer *ret, int *ret_pidfd,
                    struct err *e);

/* Starting. A start that fails is false, and *ret_failure, if given, says why. */
bool job_start(struct box *b, const struct process_start *s, struct job *ret,
               struct control_failed *ret_failure);
void job_close(struct job *j); /* its descriptors */
void job_end(struct box *b, struct job *j, struct control_exited *ret);
/* Feeds input, collects both outputs until they end, and waits for the end. */
void job_finish(struct box *b, struct job *j, struct str input, struct outcome *ret);
/* All of it. */
void box_run(struct box *b, const struct process_start *s, struct str input, struct outcome *ret);

/* A shell script as the sandbox's root: how it is started (good until the next such call), or its
 * whole life. */
struct process_start sh_start(const char *script);
bool sh_job(struct box *b, const char *script, struct job *ret);
void sh_run(struct box *b, const char *script, struct outcome *ret);

/* A file operation. */
void box_file(struct box *b, enum start_what what, const char *path, const char *to,
              struct str input, struct outcome *ret);

/* Reads until n bytes are there, end of file or BOX_WAIT_MS: the number read. */
size_t read_some(int fd, char *out, size_t n);
/* Waits until the descriptor says `word`. */
void await_word(int fd, const char *word);
int64_t process_cpu_ms(pid_t pid);
int count_descriptors(pid_t pid);

#define BOX_TEST(id)                                                                               \
    static void body_##id(void);                                                                   \
    TEST(id##_as_root)                                                                             \
    {                                                                                              \
        box_test_(body_##id, true);                                                                \
    }                                                                                              \
    TEST(id##_as_user)                                                                             \
    {                                                                                              \
        box_test_(body_##id, false);                                                               \
    }                                                                                              \
    static void body_##id(void)

#define CHECK_SH(b, script, status, said)                                                          \
    do {                                                                                           \
        struct outcome o_ AUTO(outcome_done) = { 0 };                                              \
                                                                                                   \
        sh_run((b), (script), &o_);                                                                \
        check_end_(__FILE__, __LINE__, (script), &o_, (status), (said));                           \
    } while (0)

void check_end_(const char *file, int line, const char *script, const struct outcome *o, int status,
                const char *said);

#endif
