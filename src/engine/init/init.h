/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of a sandbox: init, reaper, supervisor, and the server end of the control channel.
 *
 * It never allocates and never exits on an error. Everything it starts is a row in one table; it
 * only waits for events and updates rows. Work that needs the target user's rights (programs, file
 * operations) happens in forked children. */
#ifndef ENGINE_INIT_INIT_H
#define ENGINE_INIT_INIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/control.h"
#include "lib/ipc/kernel.h"
#include "lib/ipc/listeners.h"
#include "lib/proc/passwd.h"

/* Descriptors from the launcher. */
enum {
    INIT_CONTROL = 3,
    INIT_LISTENER = 4,
    INIT_LISTENERS = 6, /* and following */
    INIT_UPPER = INIT_LISTENERS + LISTENER_COUNT_,
    INIT_BOX,    /* holds a lock (engine/storage/driver.h); absent if the storage is in memory */
    INIT_GROUPS, /* of a prepared sandbox: the socket that its control groups come from */
    INIT_KILLS,  /* counter of OOM kills of its control group; absent without one */
    INIT_CPU,    /* likewise the counter of processor time */
    INIT_DISK,   /* and following: counters whose sum is the bytes on disk; absent without quotas */
};

enum {
    INIT_DISK_COUNTERS = 2,
    INIT_CONNECTIONS_MAX = 16,
    INIT_STDIO_MAX = 3,
    INIT_KILL_SCANS = 8,       /* one of so many scans freezes the sandbox */
    INIT_KILL_RETRY_MS = 2,    /* between two scans for processes that a kill has missed */
    INIT_OWNER_SCANS_MAX = 4,  /* running at the same time */
    INIT_OWNER_SCAN_MS = 2000, /* timeout of one */
    /* beside those of kept processes and pending starts */
    INIT_SPARE_FDS = 64 + INIT_OWNER_SCANS_MAX * CONTROL_EXES_MAX,
};

struct init_options {
    uint64_t caps;  /* capabilities that workload processes may hold */
    bool ephemeral; /* ends with its first connection */
    bool one_shot;  /* ends when it has reported the first end of a process */
    bool listens;
    uint32_t kernel;    /* of enum kernel_bits */
    bool prepared;      /* no owner yet: groups.c */
    uint32_t pids;      /* RLIMIT_NPROC, for a plain caller's sandbox; 0: none */
    uint32_t listeners; /* a bit for each present enum listener_slot */
};

enum proc_state {
    PROC_FREE,
    PROC_STARTING, /* forked; the result of its start is not known yet */
    PROC_RUNNING,
    PROC_ENDED, /* its status is known; not yet delivered or, if kept, not yet forgotten */
};

/* One started process. */
struct proc {
    enum proc_state state;
    uint32_t id, tag;
    int conn; /* the connection that gets its reports; -1: closed */
    uint64_t cookie;
    enum start_what what;
    uint32_t flags; /* of its start; START_STDIN only while PID 1 holds one */
    pid_t pid;
    int sync; /* socket to the starting child; -1 after the start */
    /* Inode of the UTS namespace of the process and all its descendants; 0 when that is known to be
     * gone. */
    uint64_t mark;
    int stdio[INIT_STDIO_MAX]; /* outer ends: held until sent or, if kept, forgotten */
    int n_stdio;
    int64_t started_ns;
    int64_t deadline; /* 0: none */
    int64_t grace_ns;
    uint32_t kills; /* OOM kills in the sandbox before its start */
    unsigned scans; /* number of scans that found processes with its mark */
    bool killing;   /* until a scan finds no process */
    bool timed_out;
    bool stopped;  /* stopped by a workload process while it served a request: it is killed for
                      that */
    bool adopted;  /* `conn` is not the connection of its start, so its tag is invalid there */
    bool ready;    /* CONTROL_STARTED must be sent */
    bool started;  /* and was sent */
    bool failed;   /* CONTROL_FAILED is its last message */
    bool reported; /* the last message was sent to `conn` or an earlier one */
    struct control_exited end;
    struct control_failed failure;
};

/* Messages of a starting child to PID 1 over its sync socket. */
enum child_word { CHILD_READY, CHILD_FAILED, CHILD_RESULT };
struct child_message {
    uint32_t word;
    int32_t sys;
    uint32_t code;
    uint64_t mark; /* its own, with CHILD_READY */
    char step[24];
    char msg[200];
};

/* procs.c: the table */
struct proc *procs_add(void); /* NULL when full */
void procs_release(struct proc *p);
uint32_t procs_last(void); /* the id given last */
struct proc *procs_by_pid(pid_t pid);
struct proc *procs_by_id(uint32_t id);
struct proc *procs_by_sync(int fd);
struct proc *procs_next(struct proc *after); /* iterates over the rows in use; NULL starts and
                                                ends */

/* conns.c: connections, each with its queue in the kernel. While a queue is full, the connection is
 * not read from; an answer that did not fit waits in the connection. */
void conns_init(int epoll);
bool conns_add(int fd); /* false if the table is full or the peer is inside */
void conns_accept(void);
bool conns_has(int fd);
void conns_drop(int fd);
/* Sends a message: 1, or 0 if the queue is full and it must be sent again after conns_ready(), or
 * -1 if the peer is gone (the next read reports that). */
int conns_send(int fd, const void *message, size_t n, const int *fds, int n_fds);
/* Answers the request that was just read. */
void conns_answer(int fd, const void *message, size_t n);
/* Answers with the message that `again` sends, now or when there is room: for answers that are
 * large or carry descriptors. It returns the result of conns_send(). */
typedef int conn_answer_fn(int fd, const struct control_one *request);
void conns_answer_by(int fd, conn_answer_fn *again, const struct control_one *request);
/* An event on a connection: true if it may be read from. */
bool conns_ready(int fd);
void conns_fail(int fd, uint32_t tag, const char *step, const struct err *e);

/* starts.c: the life of a row, from the request to the last message */
int starts_add(const struct init_options *o, int conn, const struct control_start *s,
               const char *text, const struct ipc_fds *fds, struct err *e);
void starts_receive(struct proc *p); /* its sync socket is readable */
void starts_reap(void);              /* processes that ended or were stopped */
void starts_orphan(int conn);        /* the connection was closed */
void starts_adopt(struct proc *p, int conn);
void starts_enforce(void); /* deadlines and incomplete kills */
void starts_report(const struct init_options *o);
void starts_forget(struct proc *p);  /* an ended one */
int starts_wait_ms(int64_t nearest); /* milliseconds until `nearest` or the next deadline of a row
                                        (0: none else); -1: none */
void starts_kill_all(int sig, int64_t grace_ns, struct control_killed *ret);

/* requests.c */
void requests_read(const struct init_options *o, int conn);
void requests_keep(uint32_t slots); /* at the start: the listeners and the writable layer */

/* socket_owner_scan.c: finds the processes that hold a socket. A child of PID 1 scans, because that
 * may take long; PID 1 forwards its answer. A limited number of scans run at the same time, the
 * others wait. */
int owner_scans_add(int conn, const struct control_who *asked, struct err *e);
bool owner_scans_receive(int fd); /* false if the descriptor belongs to no scan */
void owner_scans_orphan(int conn);
void owner_scans_enforce(void); /* kills scans that take too long */
void owner_scans_answer(void);
int64_t owner_scans_deadline(void); /* the nearest one; 0: none */

/* socket_owner.c: runs in that child, once. Writes the answer without its head, and its
 * descriptors. There must be room for CONTROL_WHO_IS_MAX bytes. */
int socket_owner_find(uint64_t inode, struct control_who_is *ret, size_t *ret_n,
                      struct ipc_fds *ret_fds, struct err *e);

/* dial.c */
void dial_serve(int conn, const struct control_dial *asked);

/* usage.c */
void usage_keep(void);    /* at the start: takes INIT_CPU and INIT_DISK */
void usage_watch(int fd); /* takes the counter of the control group */
void usage_read(struct control_used *ret);

/* exec.c: in the forked child; never returns */
/* With CONTROL_TEXT_FD the first descriptor holds the text; the others are lent to the program. */
void exec_child(const struct init_options *o, const struct control_start *s, const char *text,
                const struct ipc_fds *fds, int sync) __attribute__((noreturn));
void exec_fail(int sync, const char *step, const struct err *e) __attribute__((noreturn));

/* Raises the descriptor limit of PID 1 above that of its children, once there are processes to
 * keep. Returns the limit. */
uint64_t exec_raise_files(void);

/* user.c: the identity of the child */
/* Finds a user by name or, if `name` is NULL, by number; a number need not be in /etc/passwd. */
int user_find(const char *name, uint32_t uid, uint32_t gid, struct passwd_entry *ret,
              struct err *e);
int user_become(const struct passwd_entry *u, uint64_t caps, struct err *e);

/* limits.c: sets limits of the calling child; `pids` is its RLIMIT_NPROC, 0: that of PID 1 */
int limits_set(uint32_t pids, struct err *e);

/* stdio.c: pipes or a terminal, made by the child as the target user. Fills outer[] with the
 * client's ends and places 0, 1 and 2. */
int stdio_make(const struct control_start *s, int outer[INIT_STDIO_MAX], int *ret_n, int inner[3],
               struct err *e);
int stdio_arrange(const struct control_start *s, int inner[3], struct err *e);

/* kill.c */
uint64_t kill_mark_of(pid_t pid); /* 0 if it has exited or is hidden */
/* Whether that scan, counted from 0, freezes the sandbox, to catch processes that outrun the
 * others. Most scans do not, because freezing stops the whole sandbox, and killed processes may
 * only need time to exit. */
bool kill_scan_freezes(unsigned look);
/* Signals the first process and everything with its mark; the number of processes found. */
int kill_marked(const struct proc *p, int sig);
/* Sends SIGKILL to all of them while the whole sandbox is frozen. */
int kill_marked_frozen(const struct proc *p);

/* Stops all processes but PID 1, or continues them; returns the number of threads that still run.
 * Stopping takes a moment, so the caller repeats the call until it returns 0. Processes that were
 * stopped before continue, too. */
uint32_t kill_freeze(bool still);
bool kill_is_frozen(void); /* as long as the sandbox is to stay frozen */
/* After a freeze, SIGCONT is sent several times; returns when next, or 0. */
int64_t kill_deadline(void);
void kill_resume_again(void);

/* The same for all processes except PID 1, its file operations, and starts after `last`. */
int kill_others(uint32_t last, int sig);
int kill_others_frozen(uint32_t last);

/* A record of getdents64(2), which no header of both C libraries has. */
struct kernel_dirent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

/* numbers.c: iterates over the numeric entries of a directory of /proc, without allocating. A
 * directory that does not exist has none. Closed at its end, or earlier by the caller. */
struct numbers {
    int dir;
    long at, n;
    char *room; /* aligned for struct kernel_dirent */
    size_t cap;
};
void numbers_open(struct numbers *w, int at, const char *path, char *room, size_t cap);
bool numbers_next(struct numbers *w, uint64_t *ret);
void numbers_close(struct numbers *w);
/* Iterates over all processes; one such walk at a time. */
void pids_open(struct numbers *w);
pid_t pids_next(struct numbers *w); /* never 1; 0 at the end */

/* groups.c: a prepared sandbox gets an owner. Until then it starts nothing of the workload. */
void groups_keep(bool prepared);
bool groups_pending(void);
/* Enters the groups from the launcher, or ends the sandbox; `conn` is the connection of the
 * request. */
void groups_enter(int conn);
int groups_clone_flags(void); /* flags for every later start */

/* oom.c: makes the OOM killer prefer programs to PID 1, and counts the kills. */
void oom_keep(void);
void oom_before_start(void);
void oom_after_start(void); /* in PID 1 alone */
void oom_watch(int fd);     /* takes the counter of the control group */
uint32_t oom_kills(void);   /* in the sandbox so far; 0: also if unknown */

/* filter.c, landlock.c */
/* Called once in PID 1, for itself and its descendants; `kernel` is of enum kernel_bits.
 * *ret_listener is the descriptor of the filter's notifications, or -1. */
int filter_load(uint32_t kernel, int *ret_listener, struct err *e);
/* The action of the loaded program for `action` of the table. */
uint32_t filter_resolve(uint32_t action, uint32_t kernel);
int landlock_enter(struct err *e);

/* nested.c: decides about filters that programs load, where that is allowed */
void nested_keep(int listener); /* or -1 */
bool nested_has(int fd);
void nested_serve(void); /* answers one notification */

/* files.c: the file operations; the strings of the request are paths. */
int files_run(enum start_what what, uint32_t mode, char *const *paths, struct err *e);
/* Buffers the output of an operation until it is flushed; at most 64 KiB at a time. */
int files_write_output(const void *data, size_t n, struct err *e);
int files_flush(struct err *e);
int files_write_all(int fd, const void *data, size_t n, const char *what, struct err *e);
/* Splits a path relative to `at` into a directory (opened) and the last name (borrowed from the
 * path). */
int files_open_parent(int at, const char *path, int *ret_dir, const char **ret_name, struct err *e);

int files_open_regular(const char *path, struct err *e);
/* Makes the missing parents of a path, which may be cut at a failure. ret_made: how many were made,
 * the last ones. */
int files_make_parents(char *path, size_t *ret_made, struct err *e);

/* permit.c: the operation PERMIT */
int permit_run(uint32_t mode, char *const *paths, struct err *e);

/* entries.c: files as records. `mode` is that of LIST and STAT. */
struct file_record {
    struct control_entry head;
    const char *name; /* borrowed */
    char target[CONTROL_PATH_MAX], attributes[CONTROL_ATTRIBUTES_MAX];
};
int file_record_read(int dir, const char *path, const char *name, uint32_t mode,
                     struct file_record *ret, struct err *e);
uint32_t file_record_size(const struct file_record *v); /* of its record */
int file_record_write(const struct file_record *v, struct err *e);
int file_record_report(int dir, const char *path, const char *name, uint32_t mode, struct err *e);

/* write.c */
int write_run(uint32_t mode, char *const *paths, struct err *e);
int compose_run(uint32_t mode, char *const *paths, struct err *e);
/* Whether a name is a temporary of a write, and whether it will be a new file or replace one. */
enum temporary { TEMPORARY_NONE, TEMPORARY_OF_NEW, TEMPORARY_OF_OLD };
enum temporary write_temporary(const char *name);
/* The target of a write, in the directory of its temporary. */
struct write_place {
    int dir;
    const char *name; /* in it, not a link; borrowed until the next call */
    bool taken;       /* a file exists … */
    struct stat st;   /* … with this status */
};
enum { WRITE_TEMPORARY_MAX = 64 };
int write_find_place(const char *path, struct write_place *ret, struct err *e);
/* Fills in `taken` and `st`; fails for anything but a regular file. */
int write_stat_place(struct write_place *p, struct err *e);
int write_open_temporary(const struct write_place *p, char name[static WRITE_TEMPORARY_MAX],
                         struct err *e);
int write_set_attributes(int fd, char *const *attributes, struct err *e);
int write_set_mode_and_owner(int fd, const struct write_place *p, uint32_t mode, struct err *e);

/* upload.c: the operation UPLOAD */
int upload_run(uint32_t mode, char *const *attributes, struct err *e);

/* watch.c */
int watch_run(uint32_t mode, char *const *paths, struct err *e);

/* init.c */
void init_watch(int fd);     /* for input, until it is closed */
void init_watch_end(int fd); /* only for the peer to close */
int init_run(const struct init_options *o);

#endif
