/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads files in the body of one request, as a form or as a single raw file. Bytes are
 * decompressed, split into parts and passed to one operation inside, which stores all of the files
 * or, if the request fails, none. A slow operation pauses the body. */
#ifndef EDGE_CORE_UPLOAD_H
#define EDGE_CORE_UPLOAD_H

#include "edge/core/internal.h"

enum { UPLOAD_FIELD_MAX = 8 << 10 }; /* limit of a part that is not a file */

struct upload_events {
    /* A part of a form begins. *ret is the absolute path to write to, on the call's arena, or NULL
     * if the part is not a file: then its text goes to `field` or, without one, is ignored. */
    int (*part)(struct call *c, const char *name, const char *filename, const char **ret,
                struct err *e);
    int (*field)(struct call *c, const char *name, struct str text, struct err *e);
    /* a file was received completely; may be NULL */
    void (*taken)(struct call *c, const char *path);
    /* The request is complete and nothing is stored yet: an error aborts the upload. May be
     * NULL. */
    int (*complete)(struct call *c, struct err *e);
    void (*done)(struct call *c);                        /* all files are stored; must answer */
    void (*failed)(struct call *c, const struct err *e); /* nothing was stored; must answer */
};

/* Callbacks that return an error do not answer: partial files are removed first. */
struct upload_setup {
    const struct upload_events *events;
    void *owner;             /* upload_owner() */
    const char *user;        /* owner of the files */
    const char *whole;       /* the body is this single file; NULL: a form */
    bool packed;             /* gzip-compressed */
    const char **attributes; /* "NAME=VALUE" of every file */
    size_t n_attributes;     /* UPLOAD_ATTRIBUTES_MAX at most */
};

enum { UPLOAD_ATTRIBUTES_MAX = 32 };

/* The data of the setup must stay valid as long as the call, whose state the upload becomes. */
void upload_start(struct call *c, const struct upload_setup *setup);

void *upload_owner(const struct call *c);

#endif
