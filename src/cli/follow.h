/* SPDX-License-Identifier: Apache-2.0 */
/* Events in their order, without losing one: asked for again and again, each time from where the
 * last answer ended. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/api_call.h"

enum { FOLLOW_PAGE = 1000, FOLLOW_WAIT_S = 30 };

struct follow {
    const struct verb *verb;
    const struct common *common;
    const char *sandbox;       /* NULL: all */
    const char *kind;          /* of events; NULL: those of lifecycles */
    int wait_s;                /* seconds that a request waits at most; 0: FOLLOW_WAIT_S */
    int64_t after;             /* the last event that was seen; moved by follow_next() */
    const char *type;          /* only events of this type; NULL: of any */
    const char *since, *until; /* times, or how long ago; NULL: no bound */
};

/* Requests the next events and, with `wait`, waits for new ones for a while. c is
 * initialised here and released by the caller; *ret is the list of events, empty at the end. */
int follow_next(struct follow *f, bool wait, struct api_call *c, const struct json **ret);

/* Prepares a request for events of a kind (NULL: of lifecycles) from there on, without a limit. c is
 * initialised here and released by the caller. */
void follow_request(const struct follow *f, const char *kind, struct api_call *c);

/* Goes past everything that has happened so far, … */
int follow_skip(struct follow *f);
/* … up to the last n events of its kind, 1 to FOLLOW_PAGE of them. */
int follow_skip_to_last(struct follow *f, int n);

#endif
