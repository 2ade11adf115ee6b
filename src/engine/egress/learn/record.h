/* SPDX-License-Identifier: Apache-2.0 */
/* One line of an egress log, as learning reads it. The workload chooses names and programs in it:
 * what is not a canonical host or an address, a port and a plain absolute path is not used. */
#ifndef ENGINE_EGRESS_LEARN_RECORD_H
#define ENGINE_EGRESS_LEARN_RECORD_H

#include "base/str.h"
#include "lib/net/host.h"

enum { LEARN_PROGRAM_MAX = 256, LEARN_CODE_MAX = 32 };

enum learn_kind {
    LEARN_OTHER,  /* no decision about a destination: the end of a connection, a new policy, … */
    LEARN_OPENED, /* a connection was allowed */
    LEARN_ASKED,  /* a name was allowed and looked up; no connection yet */
    LEARN_REFUSED,
    LEARN_UNKNOWN, /* a refusal without a destination: a malformed request, or connections that wait */
    LEARN_ONLY_RECORDED, /* a request that the policy denies passed, because its endpoint only records */
};

struct learn_record {
    enum learn_kind kind;
    struct host host;
    uint16_t port; /* 0: none, of names */
    bool has_at;   /* `at` is the address that is dialled for the name */
    struct address at;
    uint64_t count;
    char code[LEARN_CODE_MAX];       /* of a refusal */
    char protocol[LEARN_CODE_MAX];   /* "tcp", "udp", …; "": not known */
    char program[LEARN_PROGRAM_MAX]; /* "": not known */
    bool odd_program;                /* a program is known, but no policy can name it */
};

/* False: the line is not an event, or has a destination that no policy can name. */
bool learn_record_read(struct str line, struct learn_record *ret);

#endif
