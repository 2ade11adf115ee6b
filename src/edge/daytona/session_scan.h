/* What a session's shell writes: output of commands, one after the other, with marks where each
 * begins and ends.
 *
 *     RS ID > TEXT LF    a command begins; its text, on standard output alone, as session_encode()
 *     RS ID < STATUS LF  … and ends
 *
 * It comes from a sandbox: what is no mark is output, whatever it looks like. */
#ifndef API_DAYTONA_SESSION_SCAN_H
#define API_DAYTONA_SESSION_SCAN_H

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
    const char *id;  /* of the command; "": of none, between two of them */
    struct str text; /* of SESSION_BEGIN, encoded; of SESSION_DATA */
    int status;      /* of SESSION_END */
};

typedef void session_event_fn(void *user, const struct session_event *v);

/* One stream. */
struct session_scan {
    struct buf held; /* the start of what may be a mark */
    char id[ID_MAX];
};

void session_scan_init(struct session_scan *s);
void session_scan_done(struct session_scan *s);
void session_scan(struct session_scan *s, struct str data, session_event_fn *fn, void *user);

/* In one line, as printf's %b reads it. */
int session_encode(struct str text, struct buf *out);
int session_decode(struct str text, struct buf *out);

#endif
