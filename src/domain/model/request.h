/* What a caller asks for when it creates a sandbox, and the table that checks it. */
#ifndef MODEL_REQUEST_H
#define MODEL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "json/bind.h"
#include "model/actor.h"

enum {
    REQUEST_LABELS_MAX = 32,
    REQUEST_INPUTS_MAX = 8,
    REQUEST_TEXT_MAX = 256,
    REQUEST_ALLOW_MAX = 256,
    HOST_TEXT_MAX = 255,
    REQUEST_ENV_MAX = 256,
    REQUEST_JSON_MAX = 64 << 10,
};

/* 0 is "as the profile says"; the others are the profile's own values plus one. */
enum request_scope { ASK_SCOPE_PROFILE, ASK_SCOPE_SESSION, ASK_SCOPE_AGENT, ASK_SCOPE_SHARED };
enum workspace_mode { ASK_MODE_PROFILE, ASK_MODE_MIRROR, ASK_MODE_REMOTE_CANONICAL };
enum workspace_access { ASK_ACCESS_PROFILE, ASK_ACCESS_NONE, ASK_ACCESS_RO, ASK_ACCESS_RW };

enum request_end { ASK_END_USUAL, ASK_END_DESTROY, ASK_END_PAUSE }; /* the usual is to destroy */

/* Their words; the one of 0 is empty. */
extern const char *const request_scope_names[];
extern const char *const workspace_mode_names[];
extern const char *const workspace_access_names[];
extern const char *const request_end_names[];

/* What may be reached, beside what the profile lets out. */
struct egress_request {
    struct json_strs allow;    /* HOST[:PORT[,PORT…]] */
    const struct json *policy; /* a policy, or its text; NULL: none */
    struct json_strs allow_out, deny_out;
    bool packages; /* and the hosts of package managers */
    bool given;
};
enum { EGRESS_REQUEST_FIELD_COUNT = 5 };
extern const struct json_field egress_request_fields[EGRESS_REQUEST_FIELD_COUNT];

/* The member that holds one, in a table for `type`. */
#define EGRESS_REQUEST_FIELD(type)                                                                 \
    {                                                                                              \
        "egress", JSON_KIND_OBJECT, JSON_AT(type, egress),                                         \
            .seen = offsetof(type, egress.given),                                                  \
            .doc = "What it may reach, beside what its profile lets out.",                         \
            JSON_FIELDS(egress_request_fields)                                                     \
    }

struct create_request {
    const char *profile;  /* NULL: the snapshot's, or profile.sandbox-canary */
    const char *snapshot; /* what it begins with: an id, or a name; NULL: nothing */
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
        const struct json *network_asked; /* as it came: a bool, or a list of hosts */
        enum workspace_access filesystem;
        int64_t duration_s; /* 0: not given; the same below */
        int64_t memory_mb;
        bool duration_given, memory_given; /* what was not given is not written either */
        double cpu_quota;
    } capabilities;
    struct egress_request egress;
    struct {
        bool actor_given;
        enum actor_kind actor;
        const char *harness, *session_id, *run_id, *job_id;
    } consumer;
};

/* What the code needs; offsets are from the whole request. */
enum { CAPABILITY_FIELDS = 5 };
extern const struct json_field capability_fields[CAPABILITY_FIELDS];

extern const struct json_field create_request_fields[];
extern const size_t create_request_field_count;

/* Binds and checks what a table cannot: label names, paths of inputs. */
int create_request_read(const struct json *v, struct create_request *ret, struct arena *a,
                        struct err *e);

/* The second half of that, for who fills one in by other means: hosts that it names as its network
 * become what it may reach. */
int create_request_check(struct create_request *q, struct arena *a, struct err *e);
/* Says whether it has a network. */
void create_request_network(struct create_request *q, bool network);

/* What `network` of capabilities says: true, false, or HOST[:PORT]s, of which none means false.
 * NULL: nothing. */
int network_read(const struct json *v, bool *ret, struct json_strs *hosts, struct arena *a,
                 struct err *e);

/* The label that binds a sandbox to the session that made it. Only the daemon sets it: it is
 * refused in requests, and stays when labels are set. */
#define LABEL_PEER "peer"
bool label_is_reserved(const char *key);

/* One label: name of [a-z0-9._/-], value without control characters. */
int label_check(struct str key, struct str value, struct err *e);

#endif
