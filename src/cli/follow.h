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
    const char *sandbox; /* NULL: all */
    const char *kind;    /* of events; NULL: those of lifecycles */
    int wait_s;          /* seconds that a request waits at most; 0: FOLLOW_WAIT_S */
    int64_t after;       /* the last event that was seen; moved by follow_next() */
};

/* Requests the next events and, with `wait`, waits for new ones for a while. c is
 * initialised here and released by the caller; *ret is the list of events, empty at the end. */
int follow_next(struct follow *f, bool wait, struct api_call *c, const struct json **ret);

/* Goes past everything that has happened so far, … */
int follow_skip(struct follow *f);
/* … up to the last n events, 1 to FOLLOW_PAGE of them, … */
int follow_skip_to_last(struct follow *f, int n);
/* … or up to a moment of the wall clock. Each asks a few dozen times, however many there are. */
int follow_skip_to_time(struct follow *f, int64_t time_ns);

#endif
