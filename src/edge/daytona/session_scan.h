/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the output of a session's shell: output of commands, with marks at the begin and end of
 * each.
 *
 *     RS ID > TEXT LF    a command begins; TEXT only on stdout, encoded by session_encode()
 *     RS ID < STATUS LF  the command ends
 *
 * The output is untrusted (it comes from a sandbox): bytes that are not a valid mark are output. */
#ifndef EDGE_DAYTONA_SESSION_SCAN_H
#define EDGE_DAYTONA_SESSION_SCAN_H

#include "base/buf.h"
#include "base/id.h"
#include "base/str.h"

enum {
    SESSION_COMMAND_MAX = 64 << 10,
    SESSION_MARK_MAX = 4 * SESSION_COMMAND_MAX + ID_MAX + 8,
};

enum session_kind { SESSION_BEGIN, SESSION_DATA, SESSION_END };

struct session_event {
    enum session_kind kind;
    const char *id;  /* of the command, or "" between commands */
    struct str text; /* of SESSION_BEGIN (encoded) and SESSION_DATA */
    int status;      /* of SESSION_END */
};

typedef void session_event_fn(void *user, const struct session_event *v);

/* The state of one stream. */
struct session_scan {
    struct buf held; /* the start of a possible mark */
    char id[ID_MAX];
};

void session_scan_init(struct session_scan *s);
void session_scan_done(struct session_scan *s);
void session_scan(struct session_scan *s, struct str data, session_event_fn *fn, void *user);

/* Encodes a text as one line that printf's %b decodes, and the inverse. */
int session_encode(struct str text, struct buf *out);
int session_decode(struct str text, struct buf *out);

#endif
