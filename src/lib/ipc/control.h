/* What the control channel of a sandbox carries: requests to PID 1 and its answers.
 *
 * Every message begins with a control_head. All layouts are fixed, in host byte order (both ends
 * run on one kernel), and checked by control_check() before anything else looks at them. A process
 * inside the sandbox is started with CONTROL_START: a program, or one of PID 1's own file
 * operations, which run in a forked helper with the target user's rights and use stdio as a program
 * does:
 *
 *     what        text         stdin            stdout
 *     PROGRAM     argv         a pipe if asked  a pipe          (or one terminal, with CONTROL_TTY)
 *     READ        path         -                the file's bytes
 *     WRITE       path, attributes  chunks      -               (atomic: seen whole or not at all)
 *     LIST        path         -                control_entry records
 *     STAT        path         -                one control_entry
 *     MKDIR       path         -                -               (parents too)
 *     REMOVE      path         -                -               (a whole tree)
 *     RENAME      from, to     -                -
 *     WATCH       path         -                control_event records until killed; with the mode
 *                                               CONTROL_WATCH_TREE, of all that is below
 *     PACK        path         -                a tar stream
 *     UNPACK      path         a tar stream     -
 *     HOME        -            -                the path of the user's home
 *     PERMIT      path, settings  -             -
 *     COMPOSE     to, from…    -                -               (atomic, as WRITE)
 *     UPLOAD      attributes   records of ipc/upload.h  -       (atomic: all files or none)
 *
 * WRITE goes through links that the path ends in, and keeps the mode of a file that it replaces,
 * unless it is given one, and its owner, if the user may give files to that. WATCH tells of it as
 * if the file were written in its place.
 *
 * An attribute is "user.NAME=VALUE", and an extended attribute of the new file; LIST and STAT tell
 * those of regular files with the mode CONTROL_ATTRIBUTES.
 *
 * A setting of PERMIT is "mode=OCTAL", "owner=NAME" or "group=NAME", where a name may be a number.
 * All of them are checked before the first is applied.
 *
 * COMPOSE writes the bytes of the files `from`, in their order, to the file `to`, makes its
 * parents, and removes each `from` that is not `to`.
 *
 * UPLOAD writes any number of files, each as a WRITE would, with the same attributes, and makes
 * their parents. What was made for an upload that fails is removed.
 *
 * A chunk is a uint32_t length and that many bytes; length 0 ends the data. Without it (the client
 * died) nothing is written.
 *
 * A client that dies. What is started with CONTROL_KEEP survives its client: PID 1 holds the outer
 * ends of its stdio and, after its end, how it ended, until CONTROL_FORGET. A client that comes
 * back connects, sends CONTROL_LIST, recognises its own by their cookies and takes the descriptors
 * again with CONTROL_ATTACH; bytes that nobody has read are still in the pipes. The list also makes
 * this connection the one that is told about everything whose own connection is gone: what ended
 * meanwhile (or was told to somebody who then died) is told now, under tag 0. Without CONTROL_KEEP
 * a process loses its stdio with its client, and its end is told once: to its connection or, if
 * that is gone, to the next one that lists. No end is ever told to a third connection, or made up.
 *
 * A client that does not read. PID 1 reads no further request from a connection whose queue is full
 * until it has drained; every answer and every news is then sent, in order. So whoever sends many
 * requests must read meanwhile.
 *
 * Versions. Sandboxes outlive an upgrade, so a client must get along with an older PID 1, and the
 * other way round. CONTROL_VERSION changes only if that cannot be. Otherwise:
 *   - messages and the entries of lists grow at their ends: what is longer than known is taken and
 *     its end ignored, what is shorter (but not than its first layout) is read as if followed by
 *     zeros; control_read() and the functions named …_at() do both;
 *   - a new meaning is a new type, flag, scope or `what`; one that PID 1 does not know is answered
 *     with CONTROL_FAILED and ERR_UNSUPPORTED, and the connection goes on;
 *   - PID 1 sends nothing but answers to, and news of, what was asked of it.
 */
#ifndef IPC_CONTROL_H
#define IPC_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/channel.h"

enum {
    CONTROL_MAGIC = 0x43585342, /* "BSXC" */
    CONTROL_VERSION = 2,
    CONTROL_TEXT_MAX = 4 << 20, /* argv and environment, when they travel in a memfd */
    CONTROL_STRINGS_MAX = 65536,
    CONTROL_PATH_MAX = 4096,
    CONTROL_PROCS_MAX = 1024, /* started and not yet told or, if kept, not yet forgotten */
    CONTROL_HOLDERS_MAX = 8,  /* of one socket; more are not told apart */
    CONTROL_ANCESTORS_MAX = 16,
    CONTROL_EXES_MAX = 24,      /* different ones in one answer */
    CONTROL_WHO_MAX = 128,      /* questions that wait for their turn; of one connection */
    CONTROL_WHO_IS_MAX = 32768, /* bytes of an answer, most of them paths */
    CONTROL_FIRST_ANSWER = 64,  /* types below are requests */
    CONTROL_LENT_AT = 4,        /* the first descriptor that is lent to a program */
    CONTROL_LENT_MAX = 40,
};

enum control_type {
    /* to PID 1                       answered with */
    CONTROL_PING = 1,    /*           PONG */
    CONTROL_START,       /*           STARTED, later EXITED; or FAILED */
    CONTROL_KILL,        /*           KILLED */
    CONTROL_LIST,        /*           PROCS, then news of what it adopted */
    CONTROL_ATTACH,      /* kept:     ATTACHED */
    CONTROL_CLOSE_STDIN, /* kept:     DONE; PID 1 has a write end too, so closing one's own is not
                            enough for the program to read end of file */
    CONTROL_FORGET,      /* ended:    DONE; the record and PID 1's descriptors are gone */
    CONTROL_USAGE,       /*           USED */
    CONTROL_END,         /*           the connection's end: PID 1 exits, and with it everything */
    CONTROL_LISTENERS,   /*           LISTENING; FAILED without a network boundary */
    CONTROL_WHO,         /*           WHO_IS, not always in the order of the questions */
    CONTROL_DIAL,        /*           DIALLED */
    CONTROL_UPPER,       /*           UPPER_IS */
    CONTROL_STAND,       /*           STOOD: everything but PID 1 is stopped … */
    CONTROL_GO_ON,       /*           STOOD: … and goes on */
    CONTROL_JOIN,        /*           DONE: a prepared sandbox is in the groups of its owner, which
                            PID 1 waits for; if they cannot be had, PID 1 exits */
    /* from PID 1; to any request also FAILED */
    CONTROL_PONG = CONTROL_FIRST_ANSWER,
    CONTROL_STARTED, /* with descriptors: [stdin] stdout stderr, or the terminal's master */
    CONTROL_FAILED,  /* the request with this tag did nothing */
    CONTROL_EXITED,  /* the last word; the only one about what was killed before it had started */
    CONTROL_KILLED,
    CONTROL_PROCS,
    CONTROL_ATTACHED, /* with descriptors, as STARTED; without a stdin that was closed */
    CONTROL_DONE,
    CONTROL_USED,
    CONTROL_LISTENING, /* with descriptors: ipc/listeners.h */
    CONTROL_WHO_IS,    /* with descriptors: of the executables that could be opened, in order */
    CONTROL_DIALLED,   /* with a descriptor: the socket, which may still be connecting */
    CONTROL_UPPER_IS,  /* with a descriptor (O_PATH): the top of what the sandbox writes, read-only
                          and without what is mounted over parts of it */
    CONTROL_STOOD,
};

enum control_what {
    CONTROL_PROGRAM,
    CONTROL_READ,
    CONTROL_WRITE,
    CONTROL_LIST_DIR,
    CONTROL_STAT,
    CONTROL_MKDIR,
    CONTROL_REMOVE,
    CONTROL_RENAME,
    CONTROL_WATCH,
    CONTROL_PACK,
    CONTROL_UNPACK,
    CONTROL_HOME,
    CONTROL_PERMIT,
    CONTROL_COMPOSE,
    CONTROL_UPLOAD,
    CONTROL_WHAT_COUNT_,
};

enum control_start_flags {
    CONTROL_STDIN = 1 << 0,     /* a pipe for stdin; otherwise it reads end of file */
    CONTROL_TTY = 1 << 1,       /* one terminal instead of three pipes */
    CONTROL_TEXT_FD = 1 << 2,   /* the text is in the attached memfd */
    CONTROL_USER_NAME = 1 << 3, /* the first string is a user's name, looked up inside */
    CONTROL_KEEP = 1 << 4,      /* survives its client; see above */
    CONTROL_LENT = 1 << 5,      /* a program finds the attached descriptors open, as CONTROL_LENT_AT
                                   and following: sealed memory that it, or what it loads, is in */
    CONTROL_WHOLE = 1 << 6,     /* its end is that of everything it started */
    CONTROL_FLAGS_ALL_ = (1 << 7) - 1,
};

struct control_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t tag;  /* chosen by the client, returned in the answer */
    uint32_t size; /* of the whole message */
};

/* The text holds NUL-terminated strings: [user name], working directory, argc arguments, envc
 * variables. It begins text_at bytes into the message: behind the struct as its sender knows it. */
struct control_start {
    struct control_head head;
    uint32_t what; /* enum control_what */
    uint32_t flags;
    uint32_t uid, gid;
    uint32_t mode;       /* WRITE, UPLOAD, MKDIR: permissions */
    uint16_t rows, cols; /* CONTROL_TTY */
    int64_t timeout_ns;  /* 0: none */
    int64_t grace_ns;    /* between SIGTERM and SIGKILL after a timeout */
    uint32_t argc, envc;
    uint32_t text_size;
    uint32_t text_at;
    uint64_t cookie; /* the client's own name for it, returned in everything about it */
};

enum control_scope {
    CONTROL_ONE,   /* the process that was started */
    CONTROL_GROUP, /* its process group, as a terminal's ^C would */
    CONTROL_TREE,  /* everything it started, whatever it did to hide; SIGKILL always means this */
    CONTROL_ALL,   /* proc is 0: everything inside now but PID 1 and its file operations */
    CONTROL_SCOPE_COUNT_,
};

struct control_kill {
    struct control_head head;
    uint32_t proc;
    int32_t sig;
    uint32_t scope; /* enum control_scope */
    uint32_t pad;
    int64_t grace_ns; /* CONTROL_ALL: SIGKILL to what is there after this time; 0: never */
};

/* ATTACH, CLOSE_STDIN, FORGET; and the answer DONE. */
struct control_one {
    struct control_head head;
    uint32_t proc;
    uint32_t pad;
};

/* STARTED, FAILED and EXITED carry the tag of the CONTROL_START, or 0 if that came on another
 * connection. */
struct control_started {
    struct control_head head;
    uint32_t proc; /* its name in this sandbox from now on; never reused */
    int32_t pid;   /* as seen inside */
    uint64_t cookie;
};

struct control_attached {
    struct control_head head;
    uint32_t proc;
    uint32_t flags; /* CONTROL_STDIN if that is the first descriptor; CONTROL_TTY */
};

struct control_failed {
    struct control_head head;
    uint32_t code; /* enum err_code */
    int32_t sys;
    char step[24]; /* "user", "workdir", "program", … */
    char msg[200];
    uint64_t cookie; /* of the start that failed; else 0 */
};

enum control_how { CONTROL_BY_EXIT, CONTROL_BY_SIGNAL, CONTROL_BY_TIMEOUT };

struct control_exited {
    struct control_head head; /* tag of the CONTROL_START */
    uint32_t proc;
    uint32_t how;   /* enum control_how */
    int32_t status; /* exit status, or signal number */
    int32_t sys;    /* file operations: errno of the failure, else 0 */
    int64_t cpu_ns;
    int64_t peak_bytes;
    char msg[200]; /* file operations: why it failed */
    uint64_t cookie;
    uint32_t oom_kills; /* in the sandbox while it ran … */
    uint32_t oom_total; /* … and since the sandbox was made; both 0: none, or not known */
};

struct control_killed {
    struct control_head head;
    uint32_t proc;
    int32_t sys; /* 0, or why not */
};

struct control_used {
    struct control_head head;
    int64_t cpu_ns;          /* by everything inside so far; never less than it was */
    uint32_t processes;      /* alive inside, without PID 1 */
    uint32_t programs;       /* started and running */
    uint64_t memory;         /* bytes that are of one process each, all of them … */
    uint64_t mapped;         /* … and of files, of the one that has most */
    uint64_t disk, disk_max; /* written; both 0: that is not counted here */
    uint32_t oom_kills;      /* since it was made; 0: none, or not known */
    uint32_t pad;
};

struct control_listening {
    struct control_head head;
    uint32_t slots; /* of enum listener_slot, a bit each: which descriptors are there */
    uint32_t pad;
};

/* For where there is no control group to freeze. A stop takes effect in a moment: whoever needs it
 * asks again until nothing runs. */
struct control_stood {
    struct control_head head;
    uint32_t running; /* threads that do not stand still yet */
    uint32_t pad;
};

/* Who holds a socket, by its inode number (sock_diag tells it of a connection's other end).
 *
 * The answer is what was found while PID 1 looked through the descriptors of every process, threads
 * with tables of their own included. Nobody is an answer: whoever held it has closed it or ended,
 * or hides (a program that its user may not read; without root also a process that is not
 * dumpable). More holders, executables or bytes than fit, or more descriptors inside than can be
 * looked at in reasonable time, are a failure: half an answer would be a wrong one.
 *
 * It says which programs were run, not whose will they do: a program can be made to load anything.
 * So it is for logs and a second line of defence. */
struct control_who {
    struct control_head head;
    uint64_t inode;
};

enum control_exe_flags {
    CONTROL_EXE_FD = 1 << 0 /* its descriptor is there: regular, read-only */
};

/* One executable of an answer; all zeros if it could not be looked at. Its path, as it is called
 * inside and "" if it has no name there any more, is among the strings at the end. */
struct control_exe {
    uint64_t dev, ino; /* as fstat() has them */
    uint32_t flags;    /* enum control_exe_flags */
    uint32_t pad;
};

enum control_holder_flags {
    CONTROL_HOLDER_CUT = 1 << 0, /* it has more ancestors, or they went while we looked */
};

struct control_holder {
    int32_t pid;  /* as seen inside */
    uint32_t uid; /* effective; as seen inside */
    uint32_t flags;
    uint32_t exe; /* index of an executable */
    uint32_t n_ancestors;
    uint32_t ancestors[CONTROL_ANCESTORS_MAX]; /* indexes: its parent's first; without PID 1 */
};

/* Followed by the holders, the executables, and the paths of these, each ended by NUL. */
struct control_who_is {
    struct control_head head;
    uint32_t n_holders, holder_size; /* sizes as the sender knows them */
    uint32_t n_exes, exe_size;
    uint32_t text_size;
    uint32_t pad;
};
_Static_assert((int)CONTROL_WHO_IS_MAX <= (int)IPC_MESSAGE_MAX &&
                   (int)CONTROL_EXES_MAX <= (int)IPC_FDS_MAX,
               "an answer is one packet");
_Static_assert((int)CONTROL_LENT_MAX < (int)IPC_FDS_MAX, "a start is one packet");

/* A connection to a port of the sandbox's own loopback. The socket is made inside and belongs
 * there, so nothing is reached that a program inside could not reach as well. The answer is
 * CONTROL_DIALLED, a head alone. */
struct control_dial {
    struct control_head head;
    uint16_t port;
    uint16_t family; /* 4 or 6 */
    uint32_t pad;
};

enum control_state { CONTROL_STARTING, CONTROL_RUNNING, CONTROL_ENDED };

enum control_proc_flags {
    CONTROL_TOLD =
        1 << 16, /* its end has been told to a connection; beside the flags of its start */
};

struct control_proc {
    uint32_t proc;
    int32_t pid;
    uint32_t what;
    uint32_t tag;       /* of its CONTROL_START, on whichever connection that was */
    int64_t started_ns; /* CLOCK_BOOTTIME of the sandbox */
    uint64_t cookie;
    uint32_t flags; /* CONTROL_STDIN (until it is closed), _TTY, _KEEP, _TOLD */
    uint32_t state; /* enum control_state */
    /* once it has ended, as in control_exited */
    uint32_t how;
    int32_t status, sys;
    uint32_t oom_kills;
    int64_t cpu_ns, peak_bytes;
};

/* All of them, in the order of their start. */
struct control_procs {
    struct control_head head;
    uint32_t count;
    uint32_t entry_size;        /* as the sender knows it */
    struct control_proc list[]; /* use control_procs_at() */
};
_Static_assert(sizeof(struct control_procs) + CONTROL_PROCS_MAX * sizeof(struct control_proc) <=
                   IPC_MESSAGE_MAX,
               "a full list is one packet");

enum {
    /* the mode of LIST and STAT */
    CONTROL_ATTRIBUTES = 1,
    CONTROL_RESOLVE = 2, /* a link's target is where it leads in the end, from /; none: nowhere */

    /* the mode of RENAME: of the new name; they do not outlast a failure */
    CONTROL_MAKE_PARENTS = 1,

    CONTROL_ATTRIBUTES_MAX = 32 << 10,
    CONTROL_ATTRIBUTE_COUNT_MAX = 64, /* that a WRITE or UPLOAD takes */
    CONTROL_COMPOSE_MAX = 1024,       /* files that a COMPOSE reads */
};

/* Records of LIST and STAT on stdout: the struct, then name and link target without NUL, then
 * attributes, each ended by one. */
struct control_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode, uid, gid, nlink;
    uint16_t name_len, link_len;
    uint32_t attributes_len;
};

/* The mode of a WATCH. */
enum {
    CONTROL_WATCH_TREE = 1,
    CONTROL_WATCH_ENTRIES = 2, /* what is there is told with it: attributes, too, links resolved */
};

/* Records of WATCH on stdout: the struct, then the name relative to the watched directory, then a
 * record of STAT, if it was asked for and the name is still there. */
struct control_event {
    uint32_t mask, cookie; /* as inotify(7) has them */
    uint32_t name_len, entry_len;
};

/* Checks a received message completely: magic, version, a known type, sizes that agree, strings
 * that end, counts within limits. After it, fields may be used as control_read() gives them.
 * -ERR_UNSUPPORTED for what a newer peer may mean by it. */
int control_check(const void *message, size_t n, struct err *e);

/* The first `size` bytes of a checked message, whatever its sender's idea of its length: what it
 * does not have is zero. */
void control_read(const void *message, void *ret, size_t size);
/* Entry i < count of a checked list, likewise. */
void control_procs_at(const struct control_procs *p, uint32_t i, struct control_proc *ret);
void control_holder_at(const struct control_who_is *m, uint32_t i, struct control_holder *ret);
/* The path is the message's; "" if it has none. */
const char *control_exe_at(const struct control_who_is *m, uint32_t i, struct control_exe *ret);

/* The strings of a control_start: walks NUL-terminated strings in a text that control_check() or
 * control_check_text() passed. */
const char *control_next_string(const char **at);
int control_check_text(const struct control_start *s, const char *text, size_t n, struct err *e);

void control_fill(struct control_head *h, enum control_type type, uint32_t tag, size_t size);

#endif
