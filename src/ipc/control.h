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
 *     WRITE       path         chunks           -               (atomic: seen whole or not at all)
 *     LIST        path         -                control_entry records
 *     STAT        path         -                one control_entry
 *     MKDIR       path         -                -               (parents too)
 *     REMOVE      path         -                -               (a whole tree)
 *     RENAME      from, to     -                -
 *     WATCH       path         -                control_event records until killed
 *     PACK        path         -                a tar stream
 *     UNPACK      path         a tar stream     -
 *
 * A chunk is a uint32_t length and that many bytes; length 0 ends the data. Without it (the client
 * died) nothing is written.
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
    CONTROL_VERSION = 1,
    CONTROL_TEXT_MAX = 4 << 20, /* argv and environment, when they travel in a memfd */
    CONTROL_STRINGS_MAX = 65536,
    CONTROL_PATH_MAX = 4096,
    CONTROL_PROCS_MAX = 1024, /* started and not yet collected, in one sandbox */
};

enum control_type {
    /* to PID 1 */
    CONTROL_PING = 1,
    CONTROL_START,
    CONTROL_KILL,
    CONTROL_LIST,
    /* from PID 1 */
    CONTROL_PONG = 64,
    CONTROL_STARTED, /* with descriptors: [stdin] stdout stderr, or the terminal's master */
    CONTROL_FAILED,  /* the request with this tag did nothing */
    CONTROL_EXITED,  /* the last word; the only one about what was killed before it had started */
    CONTROL_KILLED,
    CONTROL_PROCS,
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
    CONTROL_WHAT_COUNT_,
};

enum control_start_flags {
    CONTROL_STDIN = 1 << 0,     /* a pipe for stdin; otherwise it reads end of file */
    CONTROL_TTY = 1 << 1,       /* one terminal instead of three pipes */
    CONTROL_TEXT_FD = 1 << 2,   /* the text is in the attached memfd */
    CONTROL_USER_NAME = 1 << 3, /* the first string is a user's name, looked up inside */
    CONTROL_FLAGS_ALL_ = (1 << 4) - 1,
};

struct control_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t tag;  /* chosen by the client, returned in the answer */
    uint32_t size; /* of the whole message */
};

/* text holds NUL-terminated strings: [user name], working directory, argc arguments, envc
 * variables. */
struct control_start {
    struct control_head head;
    uint32_t what; /* enum control_what */
    uint32_t flags;
    uint32_t uid, gid;
    uint32_t mode;       /* WRITE, MKDIR: permissions */
    uint16_t rows, cols; /* CONTROL_TTY */
    int64_t timeout_ns;  /* 0: none */
    int64_t grace_ns;    /* between SIGTERM and SIGKILL after a timeout */
    uint32_t argc, envc;
    uint32_t text_size;
    uint32_t pad;
    char text[];
};
_Static_assert(offsetof(struct control_start, text) == sizeof(struct control_start),
               "text follows the struct at once");

enum control_scope {
    CONTROL_ONE,   /* the process that was started */
    CONTROL_GROUP, /* its process group, as a terminal's ^C would */
    CONTROL_TREE,  /* everything it started, whatever it did to hide; SIGKILL always means this */
    CONTROL_SCOPE_COUNT_,
};

struct control_kill {
    struct control_head head;
    uint32_t proc;
    int32_t sig;
    uint32_t scope; /* enum control_scope */
};

struct control_started {
    struct control_head head;
    uint32_t proc; /* its name in this sandbox from now on; never reused */
    int32_t pid;   /* as seen inside */
};

struct control_failed {
    struct control_head head;
    uint32_t code; /* enum err_code */
    int32_t sys;
    char step[24]; /* "user", "workdir", "program", … */
    char msg[200];
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
};

struct control_killed {
    struct control_head head;
    uint32_t proc;
    int32_t sys; /* 0, or why not */
};

struct control_proc {
    uint32_t proc;
    int32_t pid;
    uint32_t what;
    uint32_t tag;
    int64_t started_ns; /* CLOCK_BOOTTIME */
};

struct control_procs {
    struct control_head head;
    uint32_t count;
    uint32_t pad;
    struct control_proc list[];
};

/* Records of LIST and STAT on stdout: the struct, then name and link target without NUL. */
struct control_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode, uid, gid, nlink;
    uint16_t name_len, link_len;
    uint32_t pad;
};

/* Records of WATCH on stdout: the struct, then the name relative to the watched directory. */
struct control_event {
    uint32_t mask, cookie; /* as inotify(7) has them */
    uint32_t name_len, pad;
};

/* Checks a received message completely: magic, version, a known type, sizes that agree, strings
 * that end, counts within limits. After it, every field may be used as it is. */
int control_check(const void *message, size_t n, struct err *e);

/* The strings of a control_start: walks NUL-terminated strings in a text that control_check() or
 * control_check_text() passed. */
const char *control_next_string(const char **at);
int control_check_text(const struct control_start *s, const char *text, size_t n, struct err *e);

void control_fill(struct control_head *h, enum control_type type, uint32_t tag, size_t size);

#endif
