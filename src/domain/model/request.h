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
    REQUEST_MOUNTS_MAX = 16,
    REQUEST_PATH_MAX = 1023,
    REQUEST_JSON_MAX = 64 << 10,
    SANDBOX_NAME_MAX = 64, /* with its NUL */
};

/* 0 means the profile's value; the others are the profile's own values plus one. */
enum request_scope { ASK_SCOPE_PROFILE, ASK_SCOPE_SESSION, ASK_SCOPE_AGENT, ASK_SCOPE_SHARED };
enum workspace_mode { ASK_MODE_PROFILE, ASK_MODE_SYNC, ASK_MODE_REMOTE_CANONICAL };
enum workspace_access { ASK_ACCESS_PROFILE, ASK_ACCESS_NONE, ASK_ACCESS_RO, ASK_ACCESS_RW };

enum request_end { ASK_END_USUAL, ASK_END_DESTROY, ASK_END_PAUSE }; /* usual: destroy */

/* Changes of the workspace at an end for which no caller asked for a sync. Usual: sync. */
enum at_end { AT_END_USUAL, AT_END_SYNC, AT_END_KEEP };

enum mount_access { MOUNT_ACCESS_DEFAULT, MOUNT_ACCESS_RO, MOUNT_ACCESS_RW }; /* default: ro */

/* Names of the values; the name of 0 is empty. */
extern const char *const request_scope_names[];
extern const char *const workspace_mode_names[];
extern const char *const workspace_access_names[];
extern const char *const request_end_names[];
extern const char *const at_end_names[];
extern const char *const mount_access_names[];

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

/* Limits and defaults of programs that a sandbox has instead of its profile's. Absent members (0,
 * NULL) are the profile's. */
struct request_settings {
    struct {
        double cpu;
        uint32_t memory_mb, pids, disk_mb;
    } resources;
    bool resources_given, caps_given;
    const char *user, *workdir, *hostname;
    struct json_strs caps;
};

extern const struct json_field resource_request_fields[];
enum { RESOURCE_REQUEST_FIELD_COUNT = 4 };

/* Fields of a request whose struct has the settings as the member `settings` … */
#define REQUEST_LIMIT_FIELDS(type)                                                                 \
    { "resources",                                                                                 \
      JSON_KIND_OBJECT,                                                                            \
      JSON_AT(type, settings.resources),                                                           \
      .seen = offsetof(type, settings.resources_given),                                            \
      .doc = "Limits in the place of the profile's.",                                              \
      .fields = resource_request_fields,                                                           \
      .field_count = RESOURCE_REQUEST_FIELD_COUNT },                                               \
        { "caps",                                                                                  \
          JSON_KIND_STRS,                                                                          \
          JSON_AT(type, settings.caps),                                                            \
          .max = 7,                                                                                \
          .seen = offsetof(type, settings.caps_given),                                             \
          .doc = "Capabilities inside, in the place of the profile's: CHOWN, DAC_OVERRIDE, "       \
                 "FOWNER, FSETID, SETUID, SETGID, KILL." },                                        \
    {                                                                                              \
        "hostname", JSON_KIND_STR, JSON_AT(type, settings.hostname),                               \
            .min = 1, .max = 63, .doc = "Hostname inside; default: made of its id."                \
    }
/* … and those about its programs. */
#define REQUEST_PROGRAM_FIELDS(type)                                                               \
    { "user",                                                                                      \
      JSON_KIND_STR,                                                                               \
      JSON_AT(type, settings.user),                                                                \
      .min = 1,                                                                                    \
      .max = 32,                                                                                   \
      .doc =                                                                                       \
          "User inside that programs run as: UID, UID:GID or a name; default: the profile's." },   \
    {                                                                                              \
        "workdir", JSON_KIND_STR, JSON_AT(type, settings.workdir),                                 \
            .min = 1, .max = 255,                                                                  \
            .doc = "Working directory of programs, created if it is missing; default: the "        \
                   "profile's."                                                                    \
    }

/* A file or directory of the host that the sandbox shows. The client hands it over with the request
 * (lib/ipc/handover.h); the path is for people. */
struct request_mount {
    const char *source, *target;
    enum mount_access access;
};

enum { MOUNT_REQUEST_FIELD_COUNT = 3 };
extern const struct json_field mount_request_fields[MOUNT_REQUEST_FIELD_COUNT];

/* A row for the member `mounts` in a table for `type`. */
#define MOUNTS_REQUEST_FIELD(type)                                                                 \
    {                                                                                              \
        "mounts", JSON_KIND_OBJECTS, JSON_AT(type, mounts),                                        \
            .max = REQUEST_MOUNTS_MAX, .optional = true,                                           \
            .item_size = sizeof(struct request_mount),                                             \
            .doc = "Files and directories of the host that it shows; the sandboxer command hands " \
                   "them over on the unix socket.",                                                \
            JSON_FIELDS(mount_request_fields)                                                      \
    }

/* Checks what the table cannot express. */
int request_mounts_check(const struct json_objects *mounts, struct err *e);
/* Item i of a list of struct request_mount. */
const struct request_mount *request_mount_at(const struct json_objects *mounts, size_t i);
/* The most access that one of them has: none, ro or rw. */
enum workspace_access request_mounts_access(const struct json_objects *mounts);
void request_mounts_put(const struct json_objects *mounts, struct json_writer *w);

struct create_request {
    const char *name;     /* NULL: none */
    const char *profile;  /* NULL: the snapshot's, or profile.sandbox-canary */
    const char *snapshot; /* to start from: an id or a name; or NULL */
    const char *image;    /* its root file system; NULL: the profile's, or the host's own */
    enum request_scope scope;
    struct {
        enum workspace_mode mode;
        enum workspace_access access;
        enum at_end at_end;
    } workspace;
    struct json_map inputs; /* name → host path or value */
    struct json_map labels;
    struct json_map env;        /* of every program in it */
    struct json_objects mounts; /* struct request_mount */
    struct request_settings settings;
    int64_t ttl_ns; /* 0: the profile's default */
    enum request_end on_timeout;
    int64_t checkpoint_ns; /* the interval of its checkpoints; 0: none */
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

/* Checks what its table cannot express. */
int request_settings_check(const struct request_settings *s, struct err *e);

/* Writes them as members of a request. */
void request_settings_put(const struct request_settings *s, struct json_writer *w);

/* Writes the settings that a snapshot of the sandbox keeps, as JSON … */
int request_settings_write(const struct request_settings *s, struct buf *out, struct err *e);
/* … that fills in the members which the request does not have. */
int request_settings_inherit(struct request_settings *s, struct str text, struct arena *a,
                             struct err *e);

/* Reads capabilities.network: true, false, or a list of HOST[:PORT]; an empty list means false.
 * With NULL or JSON null it leaves *ret unchanged. */
int network_read(const struct json *v, bool *ret, struct json_strs *hosts, struct arena *a,
                 struct err *e);

/* The label that binds a sandbox to the peer session that made it. Only the daemon sets it: it is
 * rejected in requests, and kept when labels are replaced. */
#define LABEL_PEER "peer"
bool label_is_reserved(const char *key);

/* The name of a sandbox: [a-z0-9][a-z0-9._-]{0,62}, and no form of an id ("sbx_…",
 * "sbx-…"; of those without a sign in between only complete ones). */
bool sandbox_name_fits(struct str name);
int sandbox_name_check(struct str name, struct err *e);

/* One label: name of [a-z0-9._/-], value without control characters. */
int label_check(struct str key, struct str value, struct err *e);

#endif
