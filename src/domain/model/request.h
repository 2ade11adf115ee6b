/* SPDX-License-Identifier: Apache-2.0 */
/* The request to create a sandbox, and the table that validates it. */
#ifndef DOMAIN_MODEL_REQUEST_H
#define DOMAIN_MODEL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/json/bind.h"
#include "domain/model/actor.h"

enum {
    REQUEST_LABELS_MAX = 32,
    REQUEST_INPUTS_MAX = 8,
    REQUEST_TEXT_MAX = 256,
    REQUEST_ALLOW_MAX = 256,
    HOST_TEXT_MAX = 255,
    REQUEST_ENV_MAX = 256,
    REQUEST_JSON_MAX = 64 << 10,
};

/* 0 means the profile's value; the others are the profile's own values plus one. */
enum request_scope { ASK_SCOPE_PROFILE, ASK_SCOPE_SESSION, ASK_SCOPE_AGENT, ASK_SCOPE_SHARED };
enum workspace_mode { ASK_MODE_PROFILE, ASK_MODE_SYNC, ASK_MODE_REMOTE_CANONICAL };
enum workspace_access { ASK_ACCESS_PROFILE, ASK_ACCESS_NONE, ASK_ACCESS_RO, ASK_ACCESS_RW };

enum request_end { ASK_END_USUAL, ASK_END_DESTROY, ASK_END_PAUSE }; /* usual: destroy */

/* Names of the values; the name of 0 is empty. */
extern const char *const request_scope_names[];
extern const char *const workspace_mode_names[];
extern const char *const workspace_access_names[];
extern const char *const request_end_names[];

/* Egress rules in addition to those of the profile. */
struct egress_request {
    struct json_strs allow;    /* HOST[:PORT[,PORT…]] */
    const struct json *policy; /* a policy, or its text; or NULL */
    struct json_strs allow_out, deny_out;
    bool packages; /* also allow the hosts of package managers */
    bool given;
};
enum { EGRESS_REQUEST_FIELD_COUNT = 5 };
extern const struct json_field egress_request_fields[EGRESS_REQUEST_FIELD_COUNT];

/* A row for the member `egress` in a table for `type`. */
#define EGRESS_REQUEST_FIELD(type)                                                                 \
    {                                                                                              \
        "egress", JSON_KIND_OBJECT, JSON_AT(type, egress),                                         \
            .seen = offsetof(type, egress.given),                                                  \
            .doc = "Allowed destinations in addition to those of its profile.",                    \
            JSON_FIELDS(egress_request_fields)                                                     \
    }

struct create_request {
    const char *profile;  /* NULL: the snapshot's, or profile.sandbox-canary */
    const char *snapshot; /* to start from: an id or a name; or NULL */
    const char *image;    /* its root file system; NULL: the profile's, or the host's own */
    enum request_scope scope;
    struct {
        enum workspace_mode mode;
        enum workspace_access access;
    } workspace;
    struct json_map inputs; /* name → host path or value */
    struct json_map labels;
    struct json_map env; /* of every program in it */
    int64_t ttl_ns;      /* 0: the profile's default */
    enum request_end on_timeout;
    struct {
        const char *instructions_ref;
        struct json_strs secret_refs;
    } setup;
    struct {
        bool given, network, network_given;
        const struct json *network_asked; /* as received: a bool, or a list of hosts */
        enum workspace_access filesystem;
        int64_t duration_s; /* 0: not given; the same below */
        int64_t memory_mb;
        bool duration_given, memory_given; /* absent members are not written either */
        double cpu_quota;
    } capabilities;
    struct egress_request egress;
    struct {
        bool actor_given;
        enum actor_kind actor;
        const char *harness, *session_id, *run_id, *job_id;
    } consumer;
};

/* Fields of `capabilities`; offsets are relative to create_request. */
enum { CAPABILITY_FIELDS = 5 };
extern const struct json_field capability_fields[CAPABILITY_FIELDS];

extern const struct json_field create_request_fields[];
extern const size_t create_request_field_count;

/* Binds the request, and calls create_request_check(). */
int create_request_read(const struct json *v, struct create_request *ret, struct arena *a,
                        struct err *e);

/* Checks the rules that the table cannot express: names of variables and labels, sizes, quotas.
 * Adds the hosts in capabilities.network to egress.allow. */
int create_request_check(struct create_request *q, struct arena *a, struct err *e);
/* Sets capabilities.network. */
void create_request_network(struct create_request *q, bool network);

/* Reads capabilities.network: true, false, or a list of HOST[:PORT]; an empty list means false.
 * With NULL or JSON null it leaves *ret unchanged. */
int network_read(const struct json *v, bool *ret, struct json_strs *hosts, struct arena *a,
                 struct err *e);

/* The label that binds a sandbox to the peer session that made it. Only the daemon sets it: it is
 * rejected in requests, and kept when labels are replaced. */
#define LABEL_PEER "peer"
bool label_is_reserved(const char *key);

/* One label: name of [a-z0-9._/-], value without control characters. */
int label_check(struct str key, struct str value, struct err *e);

#endif
