/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, in the order of the help, and functions of cli.c that the verb `help` shares. All that a
 * verb is made of comes with it: requests, answers, columns and options. */
#ifndef CLI_VERBS_VERBS_H
#define CLI_VERBS_VERBS_H

#include <stdio.h>

#include "cli/request.h"

/* VERB(name) for each: "hosts add" is hosts_add. */
/* clang-format off */
#define CLI_VERBS(VERB)                                                                            \
    VERB(run) VERB(canary)                                                                         \
    VERB(create) VERB(exec) VERB(shell) VERB(attach) VERB(ps) VERB(kill) VERB(cp) VERB(logs)       \
    VERB(port) VERB(ssh) VERB(ssh_config)                                                          \
    VERB(get) VERB(list) VERB(events) VERB(destroy) VERB(recreate)                                 \
    VERB(pause) VERB(stop) VERB(resume)                                                            \
    VERB(snapshot) VERB(snapshots_list) VERB(snapshots_get) VERB(snapshots_verify)                 \
    VERB(snapshots_delete) VERB(snapshots_export) VERB(snapshots_import)                           \
    VERB(commit) VERB(restore) VERB(fork) VERB(diff)                                               \
    VERB(extend_ttl) VERB(expire) VERB(sync)                                                       \
    VERB(inspect_host) VERB(inspect_stale) VERB(reap_stale)                                        \
    VERB(profiles_list) VERB(profiles_get) VERB(profiles_validate)                                 \
    VERB(hosts_list) VERB(hosts_add) VERB(hosts_remove)                                            \
    VERB(image_list) VERB(image_inspect) VERB(image_pull) VERB(image_import) VERB(image_remove)    \
    VERB(image_prune) VERB(image_verify)                                                           \
    VERB(token_create) VERB(token_list) VERB(token_revoke)                                         \
    VERB(peers_list) VERB(peers_end)                                                               \
    VERB(approvals_list) VERB(approvals_show) VERB(approvals_approve) VERB(approvals_reject)       \
    VERB(trust_show) VERB(trust_validate) VERB(trust_reload) VERB(trust_explain)                   \
    VERB(egress_check) VERB(egress_explain) VERB(egress_get) VERB(egress_set) VERB(egress_log)     \
    VERB(egress_denials)                                                                           \
    VERB(audit_verify) VERB(audit_head)                                                            \
    VERB(mcp) VERB(scan) VERB(verify)                                                              \
    VERB(doctor) VERB(selftest) VERB(backup) VERB(secrets_rotate_key)                              \
    VERB(version) VERB(completion) VERB(help)
/* clang-format on */

#define DECLARE_VERB(name) extern const struct verb verb_##name;
CLI_VERBS(DECLARE_VERB)
#undef DECLARE_VERB

void cli_print_help(FILE *to);
/* Prints the verbs whose names begin with this word; false: no such verb. */
bool cli_print_group(const char *word);

/* Prints that the verb is unknown, with similar ones, and returns the exit status. */
int verb_unknown(const char *word);

#endif
