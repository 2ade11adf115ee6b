/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of a sandbox's control channel: requests to PID 1 and its answers.
 *
 * Every message begins with a control_head. All layouts are fixed, in host byte order (both ends
 * run on one kernel); control_check() validates a message before its fields are used. CONTROL_START
 * starts a process inside the sandbox: a program, or one of PID 1's own file operations, which run
 * in a forked helper with the target user's rights and use stdio as a program does:
 *
 *     operation   text         stdin            stdout
 *     PROGRAM     argv         a pipe if asked  a pipe          (or one terminal, with START_TTY)
 *     READ        path         -                the file's bytes
 *     WRITE       path, attributes  chunks      -               (atomic: seen whole or not at all)
 *     LIST        path         -                control_entry records
 *     STAT        path         -                one control_entry
 *     MKDIR       path         -                -               (parents too)
 *     REMOVE      path         -                -               (a whole tree)
 *     RENAME      from, to     -                -
 *     WATCH       path         -                control_event records until killed; with the mode
 *                                               START_WATCH_TREE, of all that is below
 *     PACK        path         -                a tar stream
 *     UNPACK      path         a tar stream     -
 *     HOME        -            -                the path of the user's home
 *     PERMIT      path, settings  -             -
 *     COMPOSE     to, from…    -                -               (atomic, as WRITE)
 *     UPLOAD      attributes   records of lib/ipc/upload.h  -       (atomic: all files or none)
 *
 * WRITE follows links at the end of the path. It keeps the mode of a file that it replaces, unless
 * the request has one, and its owner, if the user may chown files to that. WATCH reports it as if
 * the file were written in place.
 *
 * An attribute is "user.NAME=VALUE", an extended attribute of the new file; with the mode
 * START_ATTRIBUTES, LIST and STAT report the attributes of regular files.
 *
 * A setting of PERMIT is "mode=OCTAL", "owner=NAME" or "group=NAME"; a name may be a number. All
 * settings are checked before the first is applied.
 *
 * COMPOSE writes the bytes of the files `from`, in their order, to the file `to`, makes its
 * parents, and removes each `from` that is not `to`.
 *
 * UPLOAD writes any number of files, each like WRITE, with the same attributes, and makes their
 * parents. A failed upload removes the files and directories that it has made.
 *
 * A chunk is a uint32_t length and that many bytes; length 0 ends the data. Without it (the client
 * died) nothing is written.
 *
 * Reconnecting. A process started with START_KEEP survives its client: PID 1 keeps the outer ends
 * of its stdio and, after its end, its exit status, until CONTROL_FORGET. A client that reconnects
 * sends CONTROL_LIST, recognises its processes by their cookies and gets the descriptors again with
 * CONTROL_ATTACH; unread bytes are still in the pipes. CONTROL_LIST also makes this connection the
 * receiver of news about all processes whose own connection is closed: PID 1 sends, with tag 0, the
 * ends that happened meanwhile, and repeats those of kept processes, because the client that
 * received them may have died. Without START_KEEP a process loses its stdio with its client, and
 * its end is reported once: to its connection or, if that is closed, to the next one that sends
 * CONTROL_LIST.
 *
 * Flow control. PID 1 reads no further request from a connection whose queue is full until the
 * queue has drained; all answers and news are then sent, in order. So a client that sends many
 * requests must read meanwhile.
 *
 * Versions. Sandboxes outlive an upgrade, so a client must work with an older PID 1, and a newer
 * PID 1 with an older client. CONTROL_VERSION changes only if that is impossible. Otherwise:
 *   - messages and the entries of lists grow at their ends: bytes behind the known layout are
 *     ignored, and missing bytes (but not of the first layout) are read as zeros; control_read()
 *     and the functions named …_at() do both;
 *   - a new meaning is a new type, flag, scope or `what`; PID 1 answers an unknown one with
 *     CONTROL_FAILED and ERR_UNSUPPORTED, and the connection remains usable;
 *   - PID 1 sends only answers to requests, and news about processes that were started.
 * A client that finds a sandbox sends CONTROL_PING first: the answer names the release of PID 1, for
 * the error about a request that it does not know. */
#ifndef LIB_IPC_CONTROL_H
#define LIB_IPC_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/start.h"

enum {
    CONTROL_MAGIC = 0x43585342, /* "BSXC" */
    CONTROL_VERSION = 2,
    CONTROL_TEXT_MAX = 4 << 20, /* argv and environment, when they travel in a memfd */
    CONTROL_STRINGS_MAX = 65536,
    CONTROL_PATH_MAX = 4096,
    CONTROL_PROCS_MAX = 1024, /* running, not yet reported or, if kept, not yet forgotten */
    CONTROL_HOLDERS_MAX = 8,  /* of one socket; more are an error */
    CONTROL_ANCESTORS_MAX = 16,
    CONTROL_EXES_MAX = 24,      /* different ones in one answer */
    CONTROL_WHO_MAX = 128,      /* pending CONTROL_WHO requests of one connection */
    CONTROL_WHO_IS_MAX = 32768, /* bytes of an answer, most of them paths */
    CONTROL_RELEASE_MAX = 32,   /* bytes of a version, with NUL */
    CONTROL_FIRST_ANSWER = 64,  /* types below are requests */
};

enum control_type {
    /* to PID 1                       answered with */
    CONTROL_PING = 1,    /*           PONG */
    CONTROL_START,       /*           STARTED, later EXITED; or FAILED */
    CONTROL_KILL,        /*           KILLED */
    CONTROL_LIST,        /*           PROCS, then news of the adopted processes */
    CONTROL_ATTACH,      /* kept:     ATTACHED */
    CONTROL_CLOSE_STDIN, /* kept:     DONE; PID 1 has a write end, too, so the program does not
                            read end of file when only the client closes its own */
    CONTROL_FORGET,      /* ended:    DONE; PID 1 has dropped the record and its descriptors */
    CONTROL_USAGE,       /*           USED */
    CONTROL_END,         /*           end of file: PID 1 exits, and ends the sandbox */
    CONTROL_LISTENERS,   /*           LISTENING; FAILED without a network boundary */
    CONTROL_WHO,         /*           WHO_IS, not always in the order of requests */
    CONTROL_DIAL,        /*           DIALLED */
    CONTROL_UPPER,       /*           UPPER_IS */
    CONTROL_STAND,       /*           CONTROL_STOOD; stops all processes but PID 1 … */
    CONTROL_GO_ON,       /*           CONTROL_STOOD; … and continues them */
    CONTROL_JOIN,        /*           DONE, when a prepared sandbox has entered the control groups
                            of its owner; PID 1 waits for them, and exits if that fails */
    /* from PID 1; to any request also FAILED */
    CONTROL_PONG = CONTROL_FIRST_ANSWER,
    CONTROL_STARTED, /* with descriptors: [stdin] stdout stderr, or the terminal's master */
    CONTROL_FAILED,  /* the request with this tag did nothing */
    CONTROL_EXITED,  /* the last message; the only one if it was killed before it had started */
    CONTROL_KILLED,
    CONTROL_PROCS,
    CONTROL_ATTACHED, /* with descriptors, as STARTED; without a stdin that was closed */
    CONTROL_DONE,
    CONTROL_USED,
    CONTROL_LISTENING, /* with descriptors: lib/ipc/listeners.h */
    CONTROL_WHO_IS,    /* with descriptors: of the executables that could be opened, in order */
    CONTROL_DIALLED,   /* with a descriptor: the socket, which may still be connecting */
    CONTROL_UPPER_IS,  /* with a descriptor (O_PATH): the root of the sandbox's writable layer,
                          read-only and without the mounts on it */
    CONTROL_STOOD,
};

/* Flags of the message alone, in addition to enum start_flags. */
enum control_start_flags {
    CONTROL_TEXT_FD = 1 << 2,   /* the text is in the attached memfd */
    CONTROL_USER_NAME = 1 << 3, /* the first string is a user's name, looked up inside */
    CONTROL_LENT = 1 << 5,      /* the program inherits the attached descriptors, from
                                   START_LENT_AT on: sealed memory with itself or its libraries */
    CONTROL_FLAGS_ALL_ = (1 << 7) - 1,
};

struct control_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t tag;  /* chosen by the client, returned in the answer */
    uint32_t size; /* of the whole message */
};

/* A process_start (lib/ipc/start.h) as it is sent. The text has NUL-terminated strings: [user name],
 * working directory, argc arguments, envc variables. It begins at the offset text_at: behind the
 * struct as the sender knows it. */
struct control_start {
    struct control_head head;
    uint32_t what;  /* enum start_what */
    uint32_t flags; /* enum start_flags, enum control_start_flags */
    uint32_t uid, gid;
    uint32_t mode;
    uint16_t rows, cols;
    int64_t timeout_ns, grace_ns;
    uint32_t argc, envc;
    uint32_t text_size;
    uint32_t text_at;
    uint64_t cookie; /* chosen by the client, returned in all messages about the process */
};

enum control_scope {
    CONTROL_ONE,   /* the process that was started */
    CONTROL_GROUP, /* its process group, as a terminal's ^C would */
    CONTROL_TREE,  /* all its descendants, even detached ones; SIGKILL always has this scope */
    CONTROL_ALL,   /* proc is 0: all processes except PID 1 and its file operations */
    CONTROL_SCOPE_COUNT_,
};

struct control_kill {
    struct control_head head;
    uint32_t proc;
    int32_t sig;
    uint32_t scope; /* enum control_scope */
    uint32_t pad;
    int64_t grace_ns; /* CONTROL_ALL: SIGKILL to the remaining ones after this time; 0: never */
};

/* ATTACH, CLOSE_STDIN, FORGET; and the answer DONE. */
struct control_one {
    struct control_head head;
    uint32_t proc;
    uint32_t pad;
};

struct control_pong {
    struct control_head head;
    char release
        [CONTROL_RELEASE_MAX]; /* the version that PID 1 belongs to; "" if it is older than this field */
};

/* STARTED, FAILED and EXITED carry the tag of the CONTROL_START, or 0 if that came on another
 * connection. */
struct control_started {
    struct control_head head;
    uint32_t proc; /* its id in this sandbox; never reused */
    int32_t pid;   /* as seen inside */
    uint64_t cookie;
};

struct control_attached {
    struct control_head head;
    uint32_t proc;
    uint32_t flags; /* START_STDIN if that is the first descriptor; START_TTY */
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
    char msg[200]; /* file operations: reason of the failure */
    uint64_t cookie;
    uint32_t oom_kills; /* in the sandbox while it ran … */
    uint32_t oom_total; /* … and since the sandbox was made; both 0 if unknown */
    uint32_t alone;     /* of a sandbox for one program: PID 1 is its last process, and ends */
    uint32_t pad;
};

struct control_killed {
    struct control_head head;
    uint32_t proc;
    int32_t sys; /* 0, or errno of the failure */
};

struct control_used {
    struct control_head head;
    int64_t cpu_ns;          /* of all processes so far; never decreases */
    uint32_t processes;      /* alive inside, without PID 1 */
    uint32_t programs;       /* started by clients and running */
    uint64_t memory;         /* private bytes of all processes … */
    uint64_t mapped;         /* … and shared ones (files), of the process with the most */
    uint64_t disk, disk_max; /* bytes written, and their limit; both 0: not counted */
    uint32_t oom_kills;      /* since the sandbox was made; 0 also if unknown */
    uint32_t pad;
};

struct control_listening {
    struct control_head head;
    uint32_t slots; /* one bit per enum listener_slot: the attached descriptors */
    uint32_t pad;
};

/* For sandboxes without a control group to freeze. A stop is not immediate: the client repeats
 * CONTROL_STAND until `running` is 0. */
struct control_stood {
    struct control_head head;
    uint32_t running; /* threads that are not stopped yet */
    uint32_t pad;
};

/* Asks for the processes that hold a socket, by its inode number (sock_diag reports the inode of a
 * connection's other end).
 *
 * PID 1 searches the descriptors of all processes, and of threads with their own descriptor tables.
 * The answer is empty if the holder has closed the socket or ended, or if PID 1 cannot inspect it
 * (a program that its user may not read; without root also a process that is not dumpable). The
 * request fails if there are more holders, executables or bytes than fit, or too many descriptors
 * to search in reasonable time: a partial answer would be wrong.
 *
 * The answer identifies executables only, and a program can be made to load other code
 * (LD_PRELOAD). So use it for logs and defence in depth. */
struct control_who {
    struct control_head head;
    uint64_t inode;
};

enum control_exe_flags {
    CONTROL_EXE_FD = 1 << 0 /* its descriptor is attached: regular, read-only */
};

/* One executable of an answer; all zeros if it could not be opened. Its path inside, or "" if it
 * was unlinked, is among the strings at the end. */
struct control_exe {
    uint64_t dev, ino; /* as of fstat() */
    uint32_t flags;    /* enum control_exe_flags */
    uint32_t pad;
};

enum control_holder_flags {
    CONTROL_HOLDER_CUT = 1 << 0, /* it has more ancestors, or they ended during the search */
};

struct control_holder {
    int32_t pid;  /* as seen inside */
    uint32_t uid; /* effective; as seen inside */
    uint32_t flags;
    uint32_t exe; /* index of an executable */
    uint32_t n_ancestors;
    uint32_t ancestors[CONTROL_ANCESTORS_MAX]; /* indexes: its parent's first; without PID 1 */
};

/* Followed by the holders, the executables, and the executables' paths, each ended by NUL. */
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
_Static_assert((int)START_LENT_MAX < (int)IPC_FDS_MAX, "a start is one packet");

/* Connects to a port of the sandbox's own loopback. The socket is made in the sandbox's network
 * namespace, so it reaches only services that programs inside can reach, too. The answer is
 * CONTROL_DIALLED, which has only a head. */
struct control_dial {
    struct control_head head;
    uint16_t port;
    uint16_t family; /* 4 or 6 */
    uint32_t pad;
};

enum control_state { CONTROL_STARTING, CONTROL_RUNNING, CONTROL_ENDED };

enum control_proc_flags {
    CONTROL_TOLD =
        1 << 16, /* its end was reported to a connection; in addition to its start flags */
};

struct control_proc {
    uint32_t proc;
    int32_t pid;
    uint32_t what;
    uint32_t tag;       /* of its CONTROL_START, on any connection */
    int64_t started_ns; /* CLOCK_BOOTTIME of the sandbox */
    uint64_t cookie;
    uint32_t flags; /* START_STDIN (until it is closed), _TTY, _KEEP, _TOLD */
    uint32_t state; /* enum control_state */
    /* once it has ended, as in control_exited */
    uint32_t how;
    int32_t status, sys;
    uint32_t oom_kills;
    int64_t cpu_ns, peak_bytes;
};

/* All processes, in the order of their start. */
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
    CONTROL_ATTRIBUTES_MAX = 32 << 10,
    CONTROL_ATTRIBUTE_COUNT_MAX = 64, /* of a WRITE or UPLOAD */
    CONTROL_TARGET_MODE = 16,         /* in control_entry.mode: the first bit of a target's */
};

/* Records of LIST and STAT on stdout: the struct, then name and link target without NUL, then
 * attributes, each ended by NUL. Nothing says how long the struct is, so it cannot grow. */
struct control_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode; /* st_mode, of 16 bits; above it, with START_RESOLVE, that of a link's final
                      target; 0: dangling, or PID 1 is older than this */
    uint32_t uid, gid, nlink;
    uint16_t name_len, link_len;
    uint32_t attributes_len;
};

/* Records of WATCH on stdout: the struct, then the name relative to the watched directory, then,
 * with START_WATCH_ENTRIES, a record of STAT if the name still exists. */
struct control_event {
    uint32_t mask, cookie; /* as in inotify(7) */
    uint32_t name_len, entry_len;
};

/* Validates a received message: magic, version, type, consistent sizes, terminated strings, counts
 * within limits. Afterwards the fields, as control_read() returns them, may be used.
 * -ERR_UNSUPPORTED for values that a newer peer may send. */
int control_check(const void *message, size_t n, struct err *e);

/* Copies the first `size` bytes of a checked message; missing bytes are zero. */
void control_read(const void *message, void *ret, size_t size);
/* Copy entry i < count of a checked list, likewise. */
void control_procs_at(const struct control_procs *p, uint32_t i, struct control_proc *ret);
void control_holder_at(const struct control_who_is *m, uint32_t i, struct control_holder *ret);
/* Returns the path, which points into the message; may be "". */
const char *control_exe_at(const struct control_who_is *m, uint32_t i, struct control_exe *ret);

/* Returns the next string of a control_start's text, which control_check() or control_check_text()
 * has accepted. */
const char *control_next_string(const char **at);
int control_check_text(const struct control_start *s, const char *text, size_t n, struct err *e);

void control_fill(struct control_head *h, enum control_type type, uint32_t tag, size_t size);

#endif
