/* What the control plane asks of the warden: one fixed layout, checked completely. */
#ifndef DAEMON_ASK_H
#define DAEMON_ASK_H

#include <stdint.h>

#include "base/err.h"
#include "runtime/launcher.h"

enum warden_kind {
    WARDEN_LAUNCHER = 1, /* answered: a launcher's socket */
    WARDEN_HEADERS,      /* answered: what hub.headers_file says, as a file in memory */
    WARDEN_EGRESS,       /* answered: an egress worker's socket */
    WARDEN_MIRROR,       /* not answered: what becomes of it is in the report */
    WARDEN_END_EGRESS,   /* not answered: a worker is ended, whatever it does */
    WARDEN_KEEPER,       /* answered: the socket of a keeper of layers */
    WARDEN_CERTIFICATE,  /* answered: the domain's certificate and key, as a file in memory */
};

/* Descriptors of WARDEN_MIRROR, in this order; the last one may be left out. */
enum {
    ASK_FD_REPORT, /* a pipe, for frames of mirror/report.h */
    ASK_FD_TAR,
    ASK_FD_MANIFEST_OUT,
    ASK_FD_MANIFEST_IN,
    ASK_FDS_MAX,
};

struct warden_ask {
    uint32_t kind;
    uint32_t receive;
    uint32_t flags; /* enum mirror_flag */
    uint32_t uid;   /* on whose behalf */
    uint32_t root;  /* position of a configured root, from 1; 0: path is absolute */
    char path[1024];
    char top[64];
    int32_t pid; /* of a worker that is to end */
};

struct warden_answer {
    int32_t r;
    int32_t pid; /* of a new worker */
    struct err err;
};

int ask_check(const struct warden_ask *a, struct err *e);
/* The stream, the new manifest, and the old one unless it is -1: of the kinds that they must be. */
int ask_check_fds(int tar, int manifest_out, int manifest_in, struct err *e);

/* Names a host directory as the warden will take it. -ERR_DENIED if it is below no root. */
int ask_name_dir(struct warden_ask *a, const struct launcher_options *o, const char *path,
                 struct err *e);
/* Opens it with our rights, through no link. Takes as long as the file system does. */
int ask_open_dir(const struct warden_ask *a, const struct launcher_options *o, int *ret,
                 struct err *e);

#endif
