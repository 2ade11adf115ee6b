/* SPDX-License-Identifier: Apache-2.0 */
/* The schemas of answers. Requests are described by the tables that validate them; answers are
 * written by hand, so they are described by hand, in a short notation:
 *
 *     name       a string              name=a|b   one of these strings
 *     name#      a whole number        name{}     an object of strings
 *     name~      the same, or null     name^      a string, or null
 *     name%      a number              name*      an object of anything
 *     name?      true or false         name:Other as that schema
 *     name@      a moment, RFC 3339    name[]     a list of strings
 *     !…         always present        name[Other] a list of that schema
 *     name[^]    a list of strings and nulls
 *
 * A client must expect additional fields. */
#include "edge/rest/openapi.h"

#include "base/own.h"
#include "lib/json/writer.h"

static const struct {
    const char *name, *fields;
} schemas[] = {
    { "Problem",
      "!type !title !status# !code=invalid|unauthenticated|denied|not_found|conflict|paused|"
      "too_big|quota|storage_full|busy|unsupported|upstream|timeout|system|bug !detail errno "
      "sandbox_id step kind=deny|rate_limit|require_approval rule request_id audit_id rpc_code# "
      "bytes# counts* changes[SyncChange]" },
    { "Sandbox",
      "!sandbox_id !state=requested|provisioning|ready|active|paused|expired|failed|"
      "destroying|destroyed !profile profile_version# extension host !owner scope "
      "!labels{} inputs{} workspace* consumer* capabilities* setup_metadata* "
      "!created_at@ updated_at@ ready_at@ expires_at@ ttl_expires_at@ finished_at@ ttl# ttl_max# "
      "idle_reap# reachability* events_url quote:Quote notes[] recreated_from snapshot_id "
      "image telemetry* oom_kills# last_oom_at@ actuals:Actuals egress:Egress "
      "kept:Kept unsynced:Unsynced synced:Synced reason step" },
    { "Kept", "!snapshot_id !reason expires_at@" },
    { "Unsynced", "!reason error" },
    { "Synced", "!bytes# !counts* !changes[SyncChange]" },
    { "Egress",
      "sandbox_id !generation# in_force# !endpoints# allowed# denied# bytes_out# bytes_in# "
      "problem policy* ceiling*" },
    { "EgressDenial", "!host !port# !code message program !count# last_at@" },
    { "EgressDenials", "!denials[EgressDenial]" },
    { "EgressExplanation",
      "!verdict=denied|allowed|audited !stage=connect|addresses|request code "
      "reason rule policy protocol tls next unknown ceiling ceiling_from generation#" },
    { "EgressVerdict", "!valid? endpoints# problem" },
    { "Port", "!sandbox_id !port# !open?" },
    { "Ssh", "!sandbox_id !host_key" },
    { "SyncReport", "!sandbox_id !dry_run? !bytes# !counts* !changes[SyncChange] hint" },
    { "SyncChange", "!action=created|replaced|deleted|overwritten|conflict|kept|sensitive|refused|"
                    "failed|skipped|unstable !path !reason" },
    { "Snapshot", "!snapshot_id name !owner !sandbox_id !profile !profile_version# image !bytes# "
                  "!entries# !pause_ms% !layers# digests[^] !labels{} !created_at@ expires_at@" },
    { "SnapshotVerified", "!snapshot_id !layers# !first_time# !bytes#" },
    { "SnapshotList", "!snapshots[Snapshot]" },
    { "Diff", "!changes[Change]" },
    { "Change", "!change=added|changed|deleted kind=dir|file|link|other !path" },
    { "Forks", "!sandboxes[Sandbox] !pause_ms%" },
    { "SandboxList", "!sandboxes[Sandbox] !next^" },
    { "Actuals", "wall_seconds% cpu_seconds% peak_bytes# oom_kills#" },
    { "Quote", "!currency !per_hour# per_create# total#" },
    { "Process",
      "!process# pid# argv[] state=running|exited started_at@ exited_at@ exit_code~ "
      "signal timed_out? lost? oom_kills# memory_limit# tty? background? tag lost_bytes#" },
    { "Collected", "!process:Process !exit_code~ !signal !timed_out? !lost? oom_kills# "
                   "memory_limit# stdout stdout_b64 stderr stderr_b64 !truncated?" },
    { "ProcessList", "!processes[Process]" },
    { "File", "name name_b64 !kind=file|dir|link|other !size# !mode !uid# !gid# nlink# !mtime@ "
              "target target_b64" },
    { "FileList", "!entries[File]" },
    { "Actor", "!kind=adm|agt|atm !id" },
    { "Event", "!seq# !time@ !type sandbox_id from to !actor:Actor reason detail*" },
    { "EventList", "!events[Event] !next#" },
    { "Profile", "!id !version# description extension isolation* network* workspace* ttl* "
                 "resources* !available? unavailable_reason" },
    { "ProfileList", "!profiles[Profile]" },
    { "ProfileProblem", "line# field !message" },
    { "ProfileVerdict", "!valid? !problems[ProfileProblem] id version# available? "
                        "unavailable_reason" },
    { "Host", "!name !address !source=built-in|configuration|added !labels{} added_at@" },
    { "HostList", "!hosts[Host]" },
    { "Image", "!ref !digest !id !os !architecture !bytes# !created_at@ layers[] sandboxes# "
               "config* also[] pause_ms%" },
    { "ImageList", "!images[Image]" },
    { "ImagesRemoved", "!layers# !bytes#" },
    { "ImageVerified", "!ref !layers# !first_time# !bytes#" },
    { "HostTelemetry", "!host hostname kernel machine cpus# memory_bytes# memory_free_bytes# "
                       "processes# uptime_seconds# state_bytes# state_free_bytes# storage_driver "
                       "storage_why storage_limited? sandboxes# "
                       "pool_ready# version" },
    { "Due", "!sandbox_id !state !reason expires_at@" },
    { "DueList", "!due[Due] !applied?" },
    { "Stale", "!extension !id !what" },
    { "StaleList", "!stale[Stale] !applied?" },
    { "Token",
      "!id !name !owner maker !actor=adm|agt|atm !verbs[] !labels{} role egress gateway? preset "
      "!limits* !capabilities* !created_at@ expires_at@ revoked_at@" },
    { "TokenList", "!tokens[Token]" },
    { "NewToken",
      "!id !name !owner maker !actor=adm|agt|atm !verbs[] !labels{} role egress gateway? preset "
      "!limits* "
      "!capabilities* !created_at@ expires_at@ !token e2b_url e2b_domain authority daytona_url" },
    { "Peer",
      "!id !owner !role=apprentice|journeyman|master client !state=alive|left|ending !created_at@ "
      "seen_at@ !sandboxes# !made_last_hour# !minutes_last_day#" },
    { "PeerList", "!peers[Peer]" },
    { "NewPeer",
      "!id !owner !role=apprentice|journeyman|master client !state=alive|left|ending !created_at@ "
      "seen_at@ !sandboxes# !made_last_hour# !minutes_last_day# !token" },
    { "Approval", "!request_id !state=pending|approved|running|done|rejected|expired|invalid|"
                  "interrupted !tool sandbox_id !peer !owner !tier# rule !policy_version "
                  "!created_at@ !expires_at@ decided_at@ finished_at@ decided_by reason args* "
                  "failed? result*" },
    { "ApprovalList", "!approvals[Approval]" },
    { "Decided", "!request_id" },
    { "Trust",
      "!source version mode=enforce|audit|off failure=static|closed|open loaded_at@ problem "
      "tools[TrustRule]" },
    { "TrustRule", "!tool note !tier# !role !approval=none|master !effect calls# per_s# "
                   "when[TrustWhen]" },
    { "TrustWhen", "!name !tier# !role !approval=none|master" },
    { "TrustVerdict", "!valid? version tools# problem" },
    { "TrustEvaluation", "!verdict=allow|deny|rate_limit|require_approval !tier# !reason !rule "
                         "!approval_token^ !rate_limit_window_ms# !audit_id" },
    { "TrustExplanation",
      "!verdict=allow|deny|rate_limit|require_approval !code# would !rule !reason "
      "!as !effect tier# role approval when mode policy_version "
      "!checks[TrustCheck]" },
    { "TrustCheck", "!check !outcome" },
    { "Health", "!status=ok" },
    { "Key", "!key#" },
    { "AuditHead", "!seq# !digest !chained_from#" },
    { "AuditProblem", "!chain !kind !seq# time@ !message" },
    { "AuditVerified", "!intact? head:AuditHead events# expected? last_line# !sandboxes# !lines# "
                       "!unchained_lines# !problem_count# !problems[AuditProblem]" },
    { "Version", "!name !version !api url domain" },
};

static void write_type_reference(struct json_writer *w, struct str name)
{
    struct buf text AUTO(buf_done) = BUF_INIT(256);

    buf_addf(&text, "#/components/schemas/" STR_FMT, STR_ARG(name));
    json_field_str(w, "$ref", buf_str(&text));
}

static void write_enum_type(struct json_writer *w, struct str words)
{
    struct str word;

    json_field_cstr(w, "type", "string");
    json_field_begin_array(w, "enum");
    while (words.p) {
        words = str_cut(words, '|', &word);
        json_put_str(w, word);
    }
    json_end_array(w);
}

static void write_nullable_type(struct json_writer *w, const char *type)
{
    json_field_begin_array(w, "type");
    json_put_str(w, str_from(type));
    json_put_str(w, STR("null"));
    json_end_array(w);
}

static void write_list_type(struct json_writer *w, struct str of)
{
    json_field_cstr(w, "type", "array");
    json_field_begin_object(w, "items");
    if (str_eq(of, STR("^")))
        write_nullable_type(w, "string");
    else if (of.n)
        write_type_reference(w, of);
    else
        json_field_cstr(w, "type", "string");
    json_end_object(w);
}

static void write_field_type(struct json_writer *w, struct str how)
{
    struct str rest = { how.p + 1, how.n ? how.n - 1 : 0 };

    switch (how.n ? how.p[0] : 0) {
    case '#':
        json_field_cstr(w, "type", "integer");
        break;
    case '~':
    case '^':
        write_nullable_type(w, how.p[0] == '~' ? "integer" : "string");
        break;
    case '%':
        json_field_cstr(w, "type", "number");
        break;
    case '?':
        json_field_cstr(w, "type", "boolean");
        break;
    case '@':
        json_field_cstr(w, "type", "string");
        json_field_cstr(w, "format", "date-time");
        break;
    case '=':
        write_enum_type(w, rest);
        break;
    case ':':
        write_type_reference(w, rest);
        break;
    case '[':
        write_list_type(w, (struct str){ rest.p, rest.n - 1 });
        break;
    case '{':
        json_field_cstr(w, "type", "object");
        json_field_begin_object(w, "additionalProperties");
        json_field_cstr(w, "type", "string");
        json_end_object(w);
        break;
    case '*':
        json_field_cstr(w, "type", "object");
        break;
    default:
        json_field_cstr(w, "type", "string");
    }
}

/* Parses the next field; false at the end. */
static bool next_schema_field(struct str *rest, struct str *ret_name, struct str *ret_how,
                              bool *ret_must)
{
    static const char marks[] = "#~^%?@=:[{*";
    struct str field;

    if (!rest->p || !rest->n)
        return false;
    *rest = str_cut(*rest, ' ', &field);
    *ret_must = field.p[0] == '!';
    if (*ret_must)
        field = (struct str){ field.p + 1, field.n - 1 };
    ret_name->p = field.p;
    ret_name->n = 0;
    while (ret_name->n < field.n && !strchr(marks, field.p[ret_name->n]))
        ret_name->n++;
    *ret_how = (struct str){ field.p + ret_name->n, field.n - ret_name->n };
    return true;
}

static void write_answer_schema(struct json_writer *w, const char *fields)
{
    struct str rest = str_from(fields), name, how;
    bool must, any = false;

    json_begin_object(w);
    json_field_cstr(w, "type", "object");
    json_field_begin_object(w, "properties");
    while (next_schema_field(&rest, &name, &how, &must)) {
        any |= must;
        json_key(w, name);
        json_begin_object(w);
        write_field_type(w, how);
        json_end_object(w);
    }
    json_end_object(w);
    if (any) {
        json_field_begin_array(w, "required");
        for (rest = str_from(fields); next_schema_field(&rest, &name, &how, &must);)
            if (must)
                json_put_str(w, name);
        json_end_array(w);
    }
    json_end_object(w);
}

void openapi_schemas_write(struct json_writer *w)
{
    for (size_t i = 0; i < COUNT_OF(schemas); i++) {
        json_key(w, str_from(schemas[i].name));
        write_answer_schema(w, schemas[i].fields);
    }
}
