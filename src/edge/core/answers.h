/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of answers: tables that write them and describe them in the OpenAPI document. */
#ifndef EDGE_CORE_ANSWERS_H
#define EDGE_CORE_ANSWERS_H

#include "edge/core/call.h"
#include "lib/json/bind.h"

/* Answers with the struct, as its shape describes it. */
void call_answer_as(struct call *c, int status, const struct json_shape *s, const void *in);
/* A handler: answers with the shape `with` of the route, which describes the call. */
void call_answer_route(struct call *c);

/* --- shapes that several files write --- */

extern const struct json_shape quote_answer; /* struct backend_quote */

/* The outcome of a sync: the bytes that it wrote and the action for each file. */
struct sync_answer {
    const char *sandbox_id; /* in a report only, as `dry_run` and `hint` */
    const struct workspace_op *op;
    bool dry_run;
    const char *hint; /* NULL: none */
};
enum { SYNCED_FIELDS = 3, SYNC_ANSWER_FIELDS = 6 };
extern const struct json_field sync_answer_fields[SYNC_ANSWER_FIELDS];
extern const struct json_shape synced_answer; /* the first SYNCED_FIELDS */

/* The end of a process: the first member of answers that include it. */
struct ended_answer {
    const struct backend_end *end; /* NULL: it has not ended */
    bool ended, timed_out, lost;
    bool has_oom;
    const char *signal; /* "": not killed by a signal */
    uint64_t oom_kills, memory_limit;
    char number[16]; /* room for a signal without a name */
};
/* `own`: the sandbox that was made for the program, already removed; NULL: none. */
void ended_answer_fill(struct ended_answer *a, const struct backend_end *end,
                       const struct sandbox *own);
json_member_fn exit_code_write;

#define ENDED_AT(type, member) JSON_AT(type, ended.member)
#define ENDED_FIELDS(type, must)                                                                   \
    { "exit_code", JSON_KIND_INT, .required = (must), .nullable = true,                            \
      .write = exit_code_write },                                                                  \
        { "signal", JSON_KIND_TEXT, ENDED_AT(type, signal), .required = (must) },                  \
        { "timed_out", JSON_KIND_BOOL, ENDED_AT(type, timed_out), .required = (must),              \
          .seen = offsetof(type, ended.ended) },                                                   \
        { "lost", JSON_KIND_BOOL, ENDED_AT(type, lost), .required = (must),                        \
          .seen = offsetof(type, ended.ended) },                                                   \
        { "oom_kills", JSON_KIND_UINT, ENDED_AT(type, oom_kills),                                  \
          .seen = offsetof(type, ended.has_oom) },                                                 \
    {                                                                                              \
        "memory_limit", JSON_KIND_UINT, ENDED_AT(type, memory_limit),                              \
            .seen = offsetof(type, ended.has_oom)                                                  \
    }

struct process_answer {
    struct ended_answer ended;
    uint32_t process;
    int pid;
    bool exited, tty, background;
    const struct json_strs *argv; /* NULL: of a foreground program, whose client sent them */
    int64_t started_ns, exited_ns;
    const char *tag; /* NULL: none */
    uint64_t lost_bytes;
};
enum { PROCESS_ANSWER_FIELDS = 16 };
extern const struct json_field process_answer_fields[PROCESS_ANSWER_FIELDS];
extern const struct json_shape process_answer;

/* Bytes as text if they are UTF-8, else in base64, so that no byte is lost. */
struct bytes_answer {
    struct str text, base64; /* p == NULL: the other one */
};
struct bytes_answer bytes_answer(struct str data, struct buf *room); /* `room` holds base64 */

/* --- all shapes, one array per file, ended by NULL --- */

typedef const struct json_shape *const answer_shapes[];
extern answer_shapes answers_approvals, answers_audit, answers_call, answers_checkpoints,
    answers_collected, answers_commands, answers_daemon, answers_egress, answers_egress_log,
    answers_events, answers_expire, answers_files, answers_hosts, answers_images, answers_meta,
    answers_peers, answers_ports, answers_processes, answers_profiles, answers_sandbox,
    answers_sandboxes, answers_secrets, answers_snapshots, answers_ssh, answers_stats, answers_sync,
    answers_tokens, answers_trust;

#endif
