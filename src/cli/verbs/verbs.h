/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, for the table of cli.c, and what the verb `help` shares with it. */
#ifndef CLI_VERBS_VERBS_H
#define CLI_VERBS_VERBS_H

#include <stdio.h>

#include "cli/verb.h"

extern const struct verb verb_run, verb_canary;
extern const struct verb verb_create, verb_get, verb_list, verb_events, verb_destroy, verb_recreate;
extern const struct verb verb_exec, verb_shell, verb_attach, verb_ps, verb_kill, verb_cp, verb_logs;
extern const struct verb verb_snapshot, verb_snapshots_list, verb_snapshots_get;
extern const struct verb verb_commit, verb_snapshots_export, verb_snapshots_import;
extern const struct verb verb_snapshots_delete, verb_snapshots_verify, verb_restore, verb_fork,
    verb_pause, verb_stop, verb_resume;
extern const struct verb verb_diff;
extern const struct verb verb_extend_ttl, verb_expire, verb_sync;
extern const struct verb verb_inspect_host, verb_inspect_stale, verb_reap_stale;
extern const struct verb verb_profiles_list, verb_profiles_get, verb_profiles_validate;
extern const struct verb verb_hosts_list, verb_hosts_add, verb_hosts_remove;
extern const struct verb verb_image_list, verb_image_inspect, verb_image_pull, verb_image_import;
extern const struct verb verb_image_remove, verb_image_prune, verb_image_verify;
extern const struct verb verb_token_create, verb_token_list, verb_token_revoke;
extern const struct verb verb_peers_list, verb_peers_end;
extern const struct verb verb_approvals_list, verb_approvals_show, verb_approvals_approve;
extern const struct verb verb_approvals_reject;
extern const struct verb verb_trust_show, verb_trust_validate, verb_trust_reload;
extern const struct verb verb_trust_explain;
extern const struct verb verb_egress_check, verb_egress_explain, verb_egress_get, verb_egress_set;
extern const struct verb verb_egress_log, verb_egress_denials;
extern const struct verb verb_audit_verify, verb_audit_head;
extern const struct verb verb_mcp, verb_port, verb_ssh, verb_ssh_config;
extern const struct verb verb_scan, verb_verify;
extern const struct verb verb_doctor, verb_selftest, verb_backup, verb_secrets_rotate_key,
    verb_version, verb_completion, verb_help;

void cli_print_help(FILE *to);
/* Prints the verbs whose names begin with this word; false: no such verb. */
bool cli_print_group(const char *word);

/* Prints that the verb is unknown, with similar ones, and returns the exit status. */
int verb_unknown(const char *word);

#endif
