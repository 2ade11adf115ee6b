/* Files that come in the body of one request, as a form or as they are: bytes are unpacked, cut
 * into parts and given to one write after the other. What a write cannot take yet holds up the
 * body; a file whose bytes break off changes nothing. */
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
    void (*written)(struct call *c, const char *path); /* may be NULL */
    void (*done)(struct call *c);                      /* all of them are: answers */
    void (*failed)(struct call *c, const struct err *e);
    void (*end)(void *owner); /* the call is freed; may be NULL */
};

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
