/* What the control plane asks of the warden: one fixed layout, checked completely. */
#ifndef DAEMON_ASK_H
#define DAEMON_ASK_H

#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "gate/gate.h"
#include "runtime/launcher.h"

/* A request for a program comes with the socket that the program is to serve, whose other end the
 * control plane uses at once; the answer says whether it was started. */
enum warden_kind {
    WARDEN_LAUNCHER = 1, /* sandboxer-launch */
    WARDEN_HEADERS,      /* answered with what hub.headers_file says, as a file in memory */
    WARDEN_EGRESS,       /* an egress worker */
    WARDEN_MIRROR,       /* not answered: what becomes of it is in the report */
    WARDEN_END_EGRESS,   /* not answered: a worker is ended, whatever it does */
    WARDEN_KEEPER,       /* a keeper of layers */
    WARDEN_CERTIFICATE,  /* answered with the domain's certificate and key, as a file in memory */
    WARDEN_GRANT,     /* grants a host directory to a sandbox; the client's socket comes with it */
    WARDEN_CHECK,     /* whether the granted directory can still be opened */
    WARDEN_FORGET,    /* not answered: removes the grant of a sandbox */
    WARDEN_FETCH,     /* the fetch process */
    WARDEN_END_FETCH, /* not answered: a fetch process is ended, whatever it does */
    WARDEN_PLACES,    /* replaces the addresses, not public, that an egress worker may connect to */
    WARDEN_KIND_COUNT_,
};

/* Descriptors of WARDEN_MIRROR, in this order; `has` tells which of the others come behind them. */
enum {
    ASK_FD_REPORT, /* a pipe, for frames of mirror/report.h */
    ASK_FD_TAR,
    ASK_FD_MANIFEST_OUT,
    ASK_FDS_LEAST,
};
enum ask_has {
    ASK_HAS_MANIFEST_IN = 1 << 0,
    ASK_HAS_CLIENT = 1 << 1, /* the connection of the client that accepts what is held back */
    ASK_HAS_ACCEPT =
        1 << 2, /* a file in memory: the paths that the client accepts, NUL-terminated */
    ASK_HAS_ALL_ = (1 << 3) - 1,
};
enum { ASK_FDS_MAX = ASK_FDS_LEAST + 3 };

enum ask_grant {
    ASK_GRANT_NAMED = 1, /* a path of a request; the descriptor is the client's connection */
    ASK_GRANT_HANDED,    /* the descriptor is what the client made with ipc/handover.h */
};

struct warden_ask {
    uint64_t id; /* of the request; the answer has the same */
    uint32_t kind;
    uint32_t receive;     /* MIRROR: sandbox to host; GRANT: that it may be */
    uint32_t flags;       /* MIRROR: enum mirror_flag */
    uint32_t has;         /* MIRROR: enum ask_has */
    uint32_t grant;       /* GRANT: enum ask_grant */
    uint32_t root;        /* GRANT: position of a configured root, from 1; 0: path is absolute */
    uint32_t dry;         /* GRANT: it is only checked, and nothing recorded */
    char sandbox[ID_MAX]; /* GRANT, CHECK, FORGET, MIRROR */
    char path[1024];      /* GRANT */
    char top[64];         /* MIRROR */
    uint64_t worker;      /* END_EGRESS, END_FETCH, PLACES: the id of the request that started it */
};

struct warden_answer {
    uint64_t id;
    int32_t r;
    struct err err;
};

/* How long the supervisor may work on a request before it gives it up. */
int64_t ask_deadline_ns(void);

int ask_check(const struct warden_ask *a, struct err *e);
/* The socket that a program is to serve. */
int ask_check_socket(int fd, struct err *e);
/* The stream, the new manifest, and the old one unless it is -1: of the kinds that they must be. */
int ask_check_fds(int tar, int manifest_out, int manifest_in, struct err *e);

/* PLACES comes with a sealed file in memory, which holds an array of struct gate_place. Reads it;
 * `ret` has room for GATE_PLACES_MAX. */
int ask_read_places(int fd, struct gate_place *ret, size_t *ret_n, struct err *e);
int ask_make_places(const struct gate_place *list, size_t n, int *ret, struct err *e);

/* Names a host directory as the supervisor takes it. -ERR_DENIED if it is below no root. */
int ask_name_dir(struct warden_ask *a, const struct launcher_options *o, const char *path,
                 struct err *e);

#endif
