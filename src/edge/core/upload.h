/* Files that come in the body of one request, as a form or as they are: bytes are unpacked, cut
 * into parts and given to one operation inside, which stores all of the files or, if anything of
 * the request fails, none. What it cannot take yet holds up the body. */
#ifndef API_UPLOAD_H
#define API_UPLOAD_H

#include "api/inside.h"

enum { UPLOAD_FIELD_MAX = 8 << 10 }; /* bytes of a part that is no file */

struct upload_events {
    /* A part of a form begins, of a name and, if it has one, a file name: where it is written to,
     * absolute and on the call's arena, goes to *ret; NULL: nowhere, its text is told to `field`
     * or, without that, passed over. */
    int (*part)(struct call *c, const char *name, const char *filename, const char **ret,
                struct err *e);
    int (*field)(struct call *c, const char *name, struct str text, struct err *e);
    void (*taken)(struct call *c, const char *path); /* all bytes of a file came; may be NULL */
    /* The request is whole, and nothing of it is stored: a failure keeps it so. May be NULL. */
    int (*complete)(struct call *c, struct err *e);
    void (*done)(struct call *c);                        /* all files are stored: answers */
    void (*failed)(struct call *c, const struct err *e); /* nothing of it is left: answers */
    void (*end)(void *owner);                            /* the call is freed; may be NULL */
};

/* The callbacks that can fail do not answer: what was begun is removed first. */
struct upload_setup {
    const struct upload_events *events;
    void *owner;             /* upload_owner() */
    const char *user;        /* whose files they are */
    const char *whole;       /* the body is this one file, and no form; NULL: it is one */
    bool packed;             /* with gzip */
    const char **attributes; /* "NAME=VALUE" that every file gets */
    size_t n_attributes;     /* UPLOAD_ATTRIBUTES_MAX at most */
};

enum { UPLOAD_ATTRIBUTES_MAX = 32 };

/* What the setup points to stays as long as the call, whose state belongs to this from now on. */
void upload_start(struct call *c, const struct upload_setup *setup);

void *upload_owner(const struct call *c);

#endif
