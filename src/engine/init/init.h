/* PID 1 of a sandbox: init, reaper, supervisor, and the server end of the control channel.
 *
 * It never allocates and never exits on an error. Everything it starts is a row in one table; all
 * it does is wait for something to happen and update rows. What needs the target user's rights
 * (programs, file operations) happens in forked children. */
#ifndef INIT_INIT_H
#define INIT_INIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "ipc/channel.h"
#include "ipc/control.h"
#include "ipc/kernel.h"
#include "ipc/listeners.h"
#include "proc/passwd.h"

/* Descriptors as the launcher leaves them. */
enum {
    INIT_CONTROL = 3,
    INIT_LISTENER = 4,
    INIT_LISTENERS = 6, /* and following */
    INIT_UPPER = INIT_LISTENERS + LISTENER_COUNT_,
    INIT_BOX,    /* holds a lock (uppers/driver.h); not there where that is kept in memory */
    INIT_GROUPS, /* of a prepared sandbox: where its control groups come from */
    INIT_KILLS,  /* the file that counts OOM kills in its control group; not there without one */
};

enum {
    INIT_CONNECTIONS_MAX = 16,
    INIT_STDIO_MAX = 3,
    INIT_KILL_LOOKS = 8,    /* one of so many is taken while the sandbox stands still */
    INIT_KILL_RETRY_MS = 2, /* between two looks for what a kill has missed */
    INIT_LOOKS_MAX = 4,     /* at the same time */
    INIT_LOOK_MS = 2000,    /* for one, then it is given up */
    /* beside what kept processes and starts under way may hold */
    INIT_SPARE_FDS = 64 + INIT_LOOKS_MAX * CONTROL_EXES_MAX,
};

struct init_options {
    uint64_t caps;  /* what workload processes may hold */
    bool ephemeral; /* ends with its first connection */
    bool one_shot;  /* ends when it has told the first end */
    bool listens;
    uint32_t kernel;    /* of enum kernel_bits */
    bool prepared;      /* it has no owner yet: groups.c */
    uint32_t pids;      /* RLIMIT_NPROC, for a plain caller's sandbox; 0: none */
    uint32_t listeners; /* a bit for each of enum listener_slot that is there */
};

enum proc_state {
    PROC_FREE,
    PROC_STARTING, /* forked; has not said yet how its start went */
    PROC_RUNNING,
    PROC_ENDED, /* its status is known; not yet delivered or, if kept, not yet forgotten */
};

/* One thing that was started. */
struct proc {
    enum proc_state state;
    uint32_t id, tag;
    int conn; /* who is told; -1 when that connection is gone */
    uint64_t cookie;
    enum control_what what;
    uint32_t flags; /* of its start; CONTROL_STDIN only while there is one to hand out */
    pid_t pid;
    int sync; /* its end of the start; -1 when that is over */
    /* Inode of the UTS namespace that it and all it starts live in, whatever they do; 0 when that
     * is known to be gone. */
    uint64_t mark;
    int stdio[INIT_STDIO_MAX]; /* outer ends: until they are sent or, if kept, forgotten */
    int n_stdio;
    int64_t started_ns;
    int64_t deadline; /* 0: none */
    int64_t grace_ns;
    uint32_t kills; /* OOM kills in the sandbox before it was started */
    unsigned looks; /* how often a look has found something with its mark */
    bool killing;   /* until one finds nothing more */
    bool timed_out;
    bool stopped; /* by somebody inside, while it served a request: it is ended for that */
    bool adopted; /* `conn` is not the connection of its start, so the tag means nothing there */
    bool ready;   /* CONTROL_STARTED is due */
    bool started; /* and was sent */
    bool failed;  /* CONTROL_FAILED was, or will be, its last word */
    bool told;    /* the last word was said to `conn` or somebody before */
    struct control_exited end;
    struct control_failed failure;
};

/* What a starting child says to PID 1 over its sync socket. */
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
struct proc *procs_next(struct proc *after); /* every row in use; NULL starts and ends */

/* conns.c: connections, each with its queue in the kernel. When one is full, the connection is not
 * read from until it has drained; an answer that found it full waits in the connection. */
void conns_init(int epoll);
bool conns_add(int fd); /* false when there is no place or the peer is inside */
void conns_accept(void);
bool conns_has(int fd);
void conns_drop(int fd);
/* Says something: 1, or 0 if the queue is full and it must be said again when conns_ready() was
 * called, or -1 if the peer is gone (which reading from it will say next). */
int conns_tell(int fd, const void *message, size_t n, const int *fds, int n_fds);
/* Answers the request that was just read. */
void conns_answer(int fd, const void *message, size_t n);
/* Answers with what `again` tells, now or when there is room: for answers that are large or carry
 * descriptors. It returns what conns_tell() does. */
typedef int conn_again(int fd, const struct control_one *request);
void conns_answer_by(int fd, conn_again *again, const struct control_one *request);
/* An event on a connection: true if it may be read from. */
bool conns_ready(int fd);
void conns_fail(int fd, uint32_t tag, const char *step, const struct err *e);

/* starts.c: the life of a row, from the request to the last word */
int starts_add(const struct init_options *o, int conn, const struct control_start *s,
               const char *text, const struct ipc_fds *fds, struct err *e);
void starts_hear(struct proc *p); /* its sync socket has something */
void starts_reap(void);           /* everything that has ended, or was stopped */
void starts_orphan(int conn);     /* the connection is gone */
void starts_adopt(struct proc *p, int conn);
void starts_enforce(void); /* deadlines, and kills that are not complete */
void starts_tell(const struct init_options *o);
void starts_forget(struct proc *p);  /* an ended one */
int starts_wait_ms(int64_t nearest); /* until that time, or the next of all this is due (0: nothing
                                        else is); -1: nothing is */
void starts_kill_all(int sig, int64_t grace_ns, struct control_killed *ret);

/* requests.c */
void requests_read(const struct init_options *o, int conn);

/* boundary.c: the network boundary's sockets, kept for whoever serves them */
void boundary_keep(uint32_t slots);
int boundary_serve(int conn, const struct control_head *asked, struct err *e);

/* upper.c: what the sandbox writes, kept for whoever captures it */
void upper_keep(void);
int upper_serve(int conn, const struct control_head *asked, struct err *e);

/* looks.c: who holds a socket. A child of PID 1 looks, because there may be much to look at; PID 1
 * hands on what it says. Some look at the same time, the others wait for their turn. */
int looks_add(int conn, const struct control_who *asked, struct err *e);
bool looks_hear(int fd); /* false if that is no socket of a look */
void looks_orphan(int conn);
void looks_enforce(void); /* ends what takes too long */
void looks_tell(void);
int64_t looks_deadline(void); /* of the next enforcement; 0: none */

/* who.c: in that child, once. Writes the answer, without its head, and its descriptors. There is
 * room for CONTROL_WHO_IS_MAX bytes. */
int who_find(uint64_t inode, struct control_who_is *ret, size_t *ret_n, struct ipc_fds *ret_fds,
             struct err *e);

/* dial.c */
void dial_serve(int conn, const struct control_dial *asked);

/* usage.c */
void usage_read(struct control_used *ret);

/* exec.c: in the forked child; never returns */
/* The text is in the first of the descriptors with CONTROL_TEXT_FD; the others are lent. */
void exec_child(const struct init_options *o, const struct control_start *s, const char *text,
                const struct ipc_fds *fds, int sync) __attribute__((noreturn));
void exec_fail(int sync, const char *step, const struct err *e) __attribute__((noreturn));

/* Once there are processes to keep: PID 1 may hold more descriptors than what it starts. The number
 * it may hold. */
uint64_t exec_raise_files(void);

/* user.c: who the child becomes */
/* By name if `name` is not NULL, else by number; a number that is not in /etc/passwd is fine. */
int user_find(const char *name, uint32_t uid, uint32_t gid, struct passwd_entry *ret,
              struct err *e);
int user_become(const struct passwd_entry *u, uint64_t caps, struct err *e);

/* limits.c: for the calling child; `pids` is its RLIMIT_NPROC, 0: as PID 1 has it */
int limits_set(uint32_t pids, struct err *e);

/* stdio.c: pipes or a terminal, made by the child as the target user. Fills outer[] with what the
 * client gets and arranges 0, 1 and 2. */
int stdio_make(const struct control_start *s, int outer[INIT_STDIO_MAX], int *ret_n, int inner[3],
               struct err *e);
int stdio_arrange(const struct control_start *s, int inner[3], struct err *e);

/* kill.c */
uint64_t kill_mark_of(pid_t pid); /* 0 if it is gone, or hides */
/* Whether that look, counted from 0, is one at a standstill: for what outruns the others. Most are
 * not, because the whole sandbox stands, and what was killed may only need time to go. */
bool kill_stands_still(unsigned look);
/* Signals the first process and everything with its mark; the number of processes found. */
int kill_marked(const struct proc *p, int sig);
/* SIGKILL to all of it while the whole sandbox stands still. */
int kill_at_standstill(const struct proc *p);

/* Stops everything but PID 1, or lets it go on: how many threads still run. A stop takes effect in
 * a moment, so whoever needs it asks until nothing does. What was stopped before goes on, too. */
uint32_t kill_stand(bool still);
bool kill_standing(void); /* as long as it is to stand */
/* After a standstill, everything is told to go on more than once; when next, or 0. */
int64_t kill_deadline(void);
void kill_let_go_again(void);

/* The same for everything inside except PID 1, its file operations, and starts after `last`. */
int kill_others(uint32_t last, int sig);
int kill_others_at_standstill(uint32_t last);

/* numbers.c: a walk over the entries of a directory of /proc that are numbers, without allocating.
 * One that is not there has none. It is closed at its end, or before. */
struct numbers {
    int dir;
    long at, n;
    char *room; /* aligned as the kernel's entries */
    size_t cap;
};
void numbers_open(struct numbers *w, int at, const char *path, char *room, size_t cap);
bool numbers_next(struct numbers *w, uint64_t *ret);
void numbers_close(struct numbers *w);
/* All processes; one such walk at a time. */
void pids_open(struct numbers *w);
pid_t pids_next(struct numbers *w); /* never 1; 0 at the end */

/* groups.c: a prepared sandbox gets an owner. Until then it starts nothing that is not PID 1's. */
void groups_keep(bool prepared);
bool groups_pending(void);
/* Enters the groups that the launcher sends, or ends the sandbox. */
void groups_enter(void);
int groups_clone_flags(void); /* that every start needs since then */

/* oom.c: programs are killed before PID 1, which counts the kills. */
void oom_keep(void);
void oom_before_start(void);
void oom_after_start(void); /* in PID 1 alone */
void oom_watch(int fd);     /* takes the file that counts kills */
uint32_t oom_kills(void);   /* in the sandbox so far; 0: not known */

/* filter.c, landlock.c */
/* Once, in PID 1, for it and all it starts; `kernel` is of enum kernel_bits. *ret_listener is where
 * the filter asks, or -1 if it does not. */
int filter_load(uint32_t kernel, int *ret_listener, struct err *e);
/* What the program returns where the table says `action`. */
uint32_t filter_resolve(uint32_t action, uint32_t kernel);
int landlock_enter(struct err *e);

/* nested.c: filters that programs load, where they may */
void nested_keep(int listener); /* or -1 */
bool nested_has(int fd);
void nested_serve(void); /* one question of the filter */

/* files.c: the file operations; the strings of the request are its paths. */
int files_run(enum control_what what, uint32_t mode, char *const *paths, struct err *e);
/* What an operation answers, collected until it is flushed; at most 64 KiB at a time. */
int files_put(const void *data, size_t n, struct err *e);
int files_flush(struct err *e);
int files_write_all(int fd, const void *data, size_t n, const char *what, struct err *e);
/* Splits a path, that may begin at the directory `at`, into a directory (opened) and the last name
 * (borrowed from it). */
int files_open_parent(int at, const char *path, int *ret_dir, const char **ret_name, struct err *e);

int files_open_regular(const char *path, struct err *e);
/* Directories on the way to the last name. The path may be cut up at a failure. ret_made: how many
 * of them were made, the last ones. */
int files_make_parents(char *path, size_t *ret_made, struct err *e);

/* permit.c: the operation PERMIT */
int permit_run(uint32_t mode, char *const *paths, struct err *e);

/* entries.c: files as records. The mode is that of LIST and STAT. */
struct entry {
    struct control_entry head;
    const char *name; /* borrowed */
    char target[CONTROL_PATH_MAX], attributes[CONTROL_ATTRIBUTES_MAX];
};
int entry_read(int dir, const char *path, const char *name, uint32_t mode, struct entry *ret,
               struct err *e);
uint32_t entry_size(const struct entry *v); /* of its record */
int entry_put(const struct entry *v, struct err *e);
int entry_tell(int dir, const char *path, const char *name, uint32_t mode, struct err *e);

/* write.c */
int write_run(uint32_t mode, char *const *paths, struct err *e);
int compose_run(uint32_t mode, char *const *paths, struct err *e);
/* Whether a name is that of a file on its way, and whether it will be a new one or replace one. */
enum temporary { TEMPORARY_NONE, TEMPORARY_OF_NEW, TEMPORARY_OF_OLD };
enum temporary write_temporary(const char *name);
/* Where a file is written to, and its temporary is. */
struct write_place {
    int dir;
    const char *name; /* in it, and no link; borrowed, until the next place is looked for */
    bool taken;       /* by the file … */
    struct stat st;   /* … that this is of */
};
enum { WRITE_TEMPORARY_MAX = 64 };
int write_find_place(const char *path, struct write_place *ret, struct err *e);
/* Whether there is a file, and that there is nothing else. */
int write_look_at_place(struct write_place *p, struct err *e);
int write_open_temporary(const struct write_place *p, char name[static WRITE_TEMPORARY_MAX],
                         struct err *e);
int write_set_attributes(int fd, char *const *attributes, struct err *e);
int write_dress(int fd, const struct write_place *p, uint32_t mode, struct err *e);

/* upload.c: the operation UPLOAD */
int upload_run(uint32_t mode, char *const *attributes, struct err *e);

/* watch.c */
int watch_run(uint32_t mode, char *const *paths, struct err *e);

/* init.c */
void init_watch(int fd);     /* for something to read, until it is closed */
void init_watch_end(int fd); /* only for the other end to close */
int init_run(const struct init_options *o);

#endif
