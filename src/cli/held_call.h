/* SPDX-License-Identifier: Apache-2.0 */
/* A call that is held for an approver, shown to the person who decides. Arguments come from the
 * caller: none of them acts on a terminal. */
#ifndef CLI_HELD_CALL_H
#define CLI_HELD_CALL_H

#include "cli/answer.h"

/* Fetches one with its arguments: c->answer. c is initialised here and released by the caller. A
 * status. */
int held_call_fetch(struct api_call *c, const struct verb *v, const struct common *common,
                    enum contact_start start, const char *id);

/* Appends lines: caller, tool, arguments in short, sandbox, network, tier, deadline. Values take at
 * most `width` characters of a line; if one is cut, the command that shows it in full follows. */
void held_call_describe(const struct json *call, const struct table_style *style, unsigned width,
                        struct buf *out);

/* Shows it on the terminal of this process, /dev/tty, and asks there whether to `how` ("approve")
 * it. 0: yes. Else the exit status, after a message: EXIT_USAGE without a terminal. */
int held_call_confirm(const struct verb *v, const struct common *common, const char *id,
                      const char *how);

/* Adds the master token of the environment to a request that decides. A status. */
int held_call_add_master(struct api_call *c);

struct held_decision {
    const char *how; /* "approve", "reject" */
    const char *reason;
    const char *grant; /* duration; NULL: none */
};
/* Prepares the POST request of a person who was asked on a terminal; c is initialised. A status. */
int held_call_prepare(struct api_call *c, const char *id, const struct held_decision *d);
/* Prepares and sends it. A status, after a message. */
int held_call_decide(const struct verb *v, const struct common *common, const char *id,
                     const struct held_decision *d);

/* Formats for columns: the network that the call asks for, its caller, a value as compact JSON. */
show_fn show_wanted_network, show_held_caller, show_compact;

#endif
