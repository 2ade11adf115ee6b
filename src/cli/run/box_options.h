/* SPDX-License-Identifier: Apache-2.0 */
/* Options that `run` and `create` share: limits, mounts, and defaults of programs inside. */
#ifndef CLI_RUN_BOX_OPTIONS_H
#define CLI_RUN_BOX_OPTIONS_H

#include "cli/api_call.h"
#include "cli/verb.h"
#include "engine/runtime/plan.h"
#include "engine/runtime/user.h"
#include "domain/model/request.h"

struct box_options {
    const char *workdir, *hostname;
    const char *user_text; /* as it was given; NULL: the usual one */
    struct user user;
    uint64_t memory, disk, pids, caps;
    uint32_t cpu_milli;
    unsigned asked; /* enum launch_unenforced: limits that were written, not defaults */
    struct box_mount {
        char *source; /* lives as long as the program */
        char target[PLAN_TARGET_MAX];
        bool writable;
    } mounts[PLAN_MOUNTS_MAX];
    size_t n_mounts;
};

/* Their rows, for a struct with this member. */
#define BOX_OPTION_ROWS(type, member)                                                              \
    { "memory",                                                                                    \
      'm',                                                                                         \
      "SIZE",                                                                                      \
      "memory limit, such as 512M (default: the profile's; 'run': 4G)",                            \
      .set = box_set_memory,                                                                       \
      .at = offsetof(type, member) },                                                              \
        { "cpu",                                                                                   \
          0,                                                                                       \
          "N.N",                                                                                   \
          "processors it may use (default: the profile's; 'run': all)",                            \
          .set = box_set_cpu,                                                                      \
          .at = offsetof(type, member) },                                                          \
        { "pids",                                                                                  \
          0,                                                                                       \
          "N",                                                                                     \
          "process limit (default: the profile's; 'run': 1024)",                                   \
          .set = box_set_pids,                                                                     \
          .at = offsetof(type, member) },                                                          \
        { "disk",                                                                                  \
          0,                                                                                       \
          "SIZE",                                                                                  \
          "what it may write outside of mounts (default: the profile's; 'run': 1G in memory, at "  \
          "most --memory)",                                                                        \
          .set = box_set_disk,                                                                     \
          .at = offsetof(type, member) },                                                          \
        { "mount",                                                                                 \
          0,                                                                                       \
          "SRC:DST[:ro|rw]",                                                                       \
          "show a file or directory inside, read-only unless :rw",                                 \
          .set = box_set_mount,                                                                    \
          .at = offsetof(type, member) },                                                          \
        { "workdir",                                                                               \
          'w',                                                                                     \
          "DIR",                                                                                   \
          "working directory of programs (default: the profile's, or the user's home)",            \
          .set = box_set_workdir,                                                                  \
          .at = offsetof(type, member) },                                                          \
        { "user",                                                                                  \
          'u',                                                                                     \
          "USER",                                                                                  \
          "UID, UID:GID or a name inside that programs run as (default: the profile's; 'run': 0, " \
          "without capabilities)",                                                                 \
          .set = box_set_user,                                                                     \
          .at = offsetof(type, member) },                                                          \
        { "hostname",                                                                              \
          0,                                                                                       \
          "NAME",                                                                                  \
          "hostname inside (default: sbx-ID; 'run' without a daemon: sandbox)",                    \
          .set = box_set_hostname,                                                                 \
          .at = offsetof(type, member) },                                                          \
    {                                                                                              \
        "cap", 0, "NAME",                                                                          \
            "let programs hold a capability inside (CHOWN, SETUID, …), in place of the profile's", \
            .set = box_set_cap, .at = offsetof(type, member)                                       \
    }

/* For the rows. */
int box_set_memory(void *box, const char *value, struct err *e);
int box_set_cpu(void *box, const char *value, struct err *e);
int box_set_pids(void *box, const char *value, struct err *e);
int box_set_disk(void *box, const char *value, struct err *e);
int box_set_mount(void *box, const char *value, struct err *e);
int box_set_workdir(void *box, const char *value, struct err *e);
int box_set_user(void *box, const char *value, struct err *e);
int box_set_hostname(void *box, const char *value, struct err *e);
int box_set_cap(void *box, const char *value, struct err *e);

/* Opens the files of --mount with the rights of this process and hands them over with a request to
 * the daemon; *ret, on the arena, is what its body says about them. A status. */
int box_options_hand_over(const struct box_options *o, struct api_call *c, struct json_objects *ret,
                          struct arena *a);

/* As a request to the daemon has them, as far as they were given. Borrows; the list of capabilities
 * is static. */
struct request_settings box_options_settings(const struct box_options *o);

#endif
