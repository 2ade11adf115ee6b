/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, in the order of the help, and functions of cli.c that the verb `help` shares. All that a
 * verb is made of comes with it: requests, answers, columns and options. */
#ifndef CLI_VERBS_VERBS_H
#define CLI_VERBS_VERBS_H

#include <stdio.h>

#include "cli/request.h"

/* VERB(name) for each: "hosts add" is hosts_add. One list for each topic of the help. */
/* clang-format off */
#define VERBS_RUN(VERB)                                                                            \
    VERB(run) VERB(create) VERB(exec) VERB(shell) VERB(attach) VERB(ps) VERB(kill) VERB(logs)      \
    VERB(get) VERB(list) VERB(stats) VERB(top) VERB(events) VERB(wait) VERB(pause) VERB(stop)       \
    VERB(resume)                                                                                   \
    VERB(destroy) VERB(recreate) VERB(extend_ttl) VERB(label) VERB(expire)
#define VERBS_FILES(VERB)                                                                          \
    VERB(cp) VERB(sync) VERB(diff) VERB(undo)
#define VERBS_NETWORK(VERB)                                                                        \
    VERB(port) VERB(ssh) VERB(ssh_config)                                                          \
    VERB(egress_check) VERB(egress_explain) VERB(egress_get) VERB(egress_set) VERB(egress_log)     \
    VERB(egress_denials) VERB(egress_learn)
#define VERBS_SNAPSHOTS(VERB)                                                                      \
    VERB(snapshot) VERB(snapshots_list) VERB(snapshots_get) VERB(snapshots_verify)                 \
    VERB(snapshots_delete) VERB(snapshots_export) VERB(snapshots_import)                           \
    VERB(restore) VERB(fork) VERB(commit)                                                          \
    VERB(image_list) VERB(image_inspect) VERB(image_pull) VERB(image_import) VERB(image_remove)    \
    VERB(image_prune) VERB(image_verify)
#define VERBS_AGENTS(VERB)                                                                         \
    VERB(agent) VERB(mcp) VERB(setup)                                                              \
    VERB(approvals_list) VERB(approvals_show) VERB(approvals_approve) VERB(approvals_reject)       \
    VERB(approvals_watch)                                                                          \
    VERB(trust_show) VERB(trust_validate) VERB(trust_reload) VERB(trust_explain)                   \
    VERB(peers_list) VERB(peers_end) VERB(audit_verify) VERB(audit_head)            \
    VERB(audit_commands) VERB(scan) VERB(verify)
#define VERBS_MACHINE(VERB)                                                                        \
    VERB(daemon_status) VERB(daemon_start) VERB(daemon_stop) VERB(daemon_restart)                  \
    VERB(daemon_reload) VERB(daemon_logs) VERB(daemon_listen)                                      \
    VERB(config_init) VERB(config_show) VERB(config_check)                                         \
    VERB(doctor) VERB(canary) VERB(selftest)                                                       \
    VERB(profiles_list) VERB(profiles_get) VERB(profiles_validate) VERB(profiles_reload)           \
    VERB(token_create) VERB(token_list) VERB(token_revoke)                                         \
    VERB(hosts_list) VERB(hosts_add) VERB(hosts_remove)                                            \
    VERB(inspect_host) VERB(inspect_stale) VERB(reap_stale)                                        \
    VERB(backup) VERB(secrets_rotate_key) VERB(version) VERB(completion) VERB(help)
#define CLI_VERBS(VERB)                                                                            \
    VERBS_RUN(VERB) VERBS_FILES(VERB) VERBS_NETWORK(VERB) VERBS_SNAPSHOTS(VERB)                    \
    VERBS_AGENTS(VERB) VERBS_MACHINE(VERB)
/* The ten that the help shows first: enough for the tasks that README begins with. `setup` leads to
 * mcp, and the answers of the others name undo, sync and logs. */
#define VERBS_FIRST(VERB)                                                                          \
    VERB(run) VERB(agent) VERB(setup) VERB(create) VERB(exec) VERB(shell) VERB(cp) VERB(list)      \
    VERB(destroy) VERB(doctor)
/* clang-format on */

#define DECLARE_VERB(name) extern const struct verb verb_##name;
CLI_VERBS(DECLARE_VERB)
#undef DECLARE_VERB

void cli_print_help(FILE *to);     /* the first verbs, and the names of all */
void cli_print_all_help(FILE *to); /* each verb with its summary */
/* Prints the verbs whose names begin with this word; false: no such verb. */
bool cli_print_group(const char *word);

/* Prints that no verb begins with these words, with similar ones, and returns the exit status. */
int verb_unknown(int argc, char **argv);

/* Parses these words as the arguments of a verb and runs it: the exit status. argv[0] is not read.
 * */
int verb_run_words(const struct verb *v, int argc, char **argv);

#endif
