/* SPDX-License-Identifier: Apache-2.0 */
/* A start of a process inside a sandbox: of a program, or of a file operation.
 *
 * The control plane fills a process_start, a backend adds the defaults of its sandbox, and
 * engine/runtime/supervisor.h sends it to PID 1 as a control_start (lib/ipc/control.h). Kinds, flags
 * and modes have the same values in all of these, so none is translated: they never change. */
#ifndef LIB_IPC_START_H
#define LIB_IPC_START_H

#include <stddef.h>
#include <stdint.h>

enum start_what {
    START_PROGRAM,
    START_READ,
    START_WRITE,
    START_LIST,
    START_STAT,
    START_MKDIR,
    START_REMOVE,
    START_RENAME,
    START_WATCH,
    START_PACK,
    START_UNPACK,
    START_HOME,    /* without paths: prints the user's home directory */
    START_PERMIT,  /* a path, followed by "mode=OCTAL", "owner=NAME", "group=NAME" */
    START_COMPOSE, /* the new file, followed by up to START_COMPOSE_MAX files to concatenate */
    START_UPLOAD,  /* attributes, as for START_WRITE; the files are records of lib/ipc/upload.h */
    START_WHAT_COUNT_,
};

/* The values between are those of flags that only a control_start has. */
enum start_flags {
    START_STDIN = 1 << 0, /* a pipe for stdin; otherwise the program reads end of file */
    START_TTY = 1 << 1,   /* one terminal instead of three pipes */
    START_KEEP = 1 << 4,  /* survives its client, and stays until it is forgotten */
    START_WHOLE = 1 << 6, /* its end also ends all processes that it started */
};

enum {
    START_LENT_AT = 4, /* number of the first descriptor lent to a program */
    START_LENT_MAX = 40,
    START_COMPOSE_MAX = 1024,
};

/* Bits of the mode that are not permissions. */
enum {
    /* START_LIST, START_STAT */
    START_ATTRIBUTES = 1, /* reports extended attributes */
    START_RESOLVE = 2,    /* reports the absolute final target of a link; empty if it dangles */
    /* START_WATCH */
    START_WATCH_TREE = 1, /* includes subdirectories, also later ones */
    START_WATCH_ENTRIES =
        2, /* events include the current entry, with attributes and resolved links */
    /* START_RENAME */
    START_MAKE_PARENTS = 1, /* of the new name; removed again on failure */
};

/* Everything is borrowed during the call that takes it. */
struct process_start {
    enum start_what what;
    uint32_t flags;          /* enum start_flags */
    const char *user;        /* "0", "1000:1000", a name inside; NULL: the sandbox's, or root */
    const char *cwd;         /* NULL: the sandbox's; "": the user's home, or / */
    const char *const *argv; /* NULL-terminated; for file operations, the paths; for START_WRITE
                                followed by attributes: "user.NAME=VALUE" */
    const char *const *envp; /* NULL-terminated, or NULL; precedence: lib/ipc/environment.h */
    uint32_t mode;           /* START_WRITE, START_UPLOAD, START_MKDIR: permissions */
    uint16_t rows, cols;     /* START_TTY */
    int64_t timeout_ns;      /* 0: no timeout */
    int64_t grace_ns;        /* between SIGTERM and SIGKILL after a timeout */
    uint64_t cookie;         /* identifies it for a client that reconnects */
    const int *lent; /* sealed memory that a program inherits, from descriptor START_LENT_AT on … */
    size_t n_lent;   /* … at most START_LENT_MAX */
};

#endif
