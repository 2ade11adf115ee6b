/* SPDX-License-Identifier: Apache-2.0 */
/* Options that grant a sandbox network access. */
#ifndef CLI_RUN_NETWORK_OPTIONS_H
#define CLI_RUN_NETWORK_OPTIONS_H

#include "base/buf.h"
#include "cli/text_file.h"
#include "cli/verb.h"
#include "lib/ipc/listeners.h"
#include "lib/json/writer.h"
#include "domain/model/request.h"

enum { NETWORK_RESOLVERS_MAX = 3 };

struct network_options {
    struct option_list allow;     /* HOST[:PORT] … */
    bool identify;                /* record the program of every connection */
    bool packages;                /* and the hosts of package managers */
    const char *policy;           /* a file, "-" is stdin; NULL: none */
    struct option_list resolvers; /* ADDRESS[:PORT]; none: the host's */
    const char *upstream;         /* a proxy to go through; NULL: none */
    const char *log;              /* a file for the audit events; NULL: none */
    const int *record;            /* a pipe that gets all events; NULL: none */
    struct buf text;              /* of the policy; if it is set, no file is read */
    char unknown[128];            /* package managers whose hosts are not known; "" if none */
    bool complete;
};

#define NETWORK_OPTIONS_NONE                                                                       \
    {                                                                                              \
        .text = {.max = TEXT_FILE_MAX }                                                            \
    }

/* Rows of the options that `run` and `create` share, for a struct with this member. */
#define NETWORK_OPTION_ROWS(type, member)                                                          \
    { "allow",                                                                                     \
      0,                                                                                           \
      "HOST[:PORT]",                                                                               \
      "let it reach this host (default port: 443); can be repeated: api.example.com, "             \
      "'*.example.com:80,443', mirror.corp:443=10.0.0.5 for a name at an address that is not "     \
      "public (HOST:PORT=ADDRESS), localhost:8080 of this machine",                                \
      .kind = OPTION_LIST,                                                                         \
      .at = offsetof(type, member.allow) },                                                        \
        { "allow-packages", 0, NULL,                                                               \
          "let it reach the hosts that its package managers are configured for",                   \
          .at = offsetof(type, member.packages) },                                                 \
    {                                                                                              \
        "policy", 0, "FILE", "let it reach what this egress policy allows ('egress check FILE')",  \
            .at = offsetof(type, member.policy), .complete = COMPLETE_FILE                         \
    }

/* Whether there is to be a network. */
bool network_is_requested(const struct network_options *o);
/* Whether any network option was given. */
bool network_touched(const struct network_options *o);

/* Reads the policy's file. */
int network_options_read(struct network_options *o, struct err *e);

/* Reads the policy, and adds the hosts of package managers, if asked to; root, home and env as
 * package_hosts_find() has them. Does so once. 1, or 0 if there is to be no network; an error if
 * the options do not go together. */
int network_options_complete(struct network_options *o, int root, const char *home,
                             const char *const *env, struct err *e);

/* Ports of the sandbox's loopback that --allow makes the host's: of 127.0.0.1, localhost and
 * ::1. */
struct listeners_taken network_taken(const struct network_options *o);

/* Opens the file for the events; -1 if there is to be none. */
int network_log_open(const struct network_options *o, int *ret, struct err *e);

/* The member `egress` of a request, after the policy was read; `policy` holds its text. */
struct egress_request network_options_request(const struct network_options *o, struct json *policy);
/* Writes that member; nothing without a network. */
void network_options_write(const struct network_options *o, struct json_writer *w);

#endif
