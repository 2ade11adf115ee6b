/* SPDX-License-Identifier: Apache-2.0 */
/* A profile: the named, versioned recipe of a sandbox, read from a YAML file.
 *
 *     id: profile.agent-dev
 *     version: 1
 *     ttl: { default: 2h, max: 24h }
 *
 * profile_fields is its only table: it reads the YAML, writes the JSON, generates the JSON Schema,
 * and docs/profiles.md is checked against it. A profile is immutable. Users of a profile hold a
 * reference, so that it survives a reload of the catalog. */
#ifndef DOMAIN_PROFILE_PROFILE_H
#define DOMAIN_PROFILE_PROFILE_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"
#include "lib/json/writer.h"
#include "domain/model/command.h"
#include "domain/policy/egress_policy.h"

enum {
    PROFILE_BYTES_MAX = 64 << 10,  /* of a file */
    PROFILE_MEMORY_MAX = 2 << 20,  /* of a profile in memory, its document included */
    PROFILE_DEPTH_MAX = 12,        /* of the document */
    PROFILE_EGRESS_MAX = 256,      /* endpoints */
    PROFILE_ID_MAX = 72,           /* with its NUL */
    PROFILE_VERSION_MAX = 1000000, /* a version is a whole number; a larger one is newer */
};

enum profile_isolation {
    ISOLATION_PROCESS,
    ISOLATION_CONTAINER,
    ISOLATION_GVISOR,
    ISOLATION_MICROVM,
    ISOLATION_POLICY,
    ISOLATION_COUNT_,
};
extern const char *const isolation_names[]; /* in this order; ends with NULL */
enum profile_system { SYSTEM_AUTO, SYSTEM_SHARED, SYSTEM_APART };
enum profile_side_channels { SIDE_CHANNELS_AUTO, SIDE_CHANNELS_OPEN, SIDE_CHANNELS_GUARDED };
enum profile_network { NETWORK_DENY };
enum profile_worker {
    PROFILE_WORKER_AUTO,
    PROFILE_WORKER_SHARED,
    PROFILE_WORKER_OWNER,
    PROFILE_WORKER_OWN,
};
enum profile_workspace_mode { WORKSPACE_SYNC, WORKSPACE_REMOTE_CANONICAL };
enum profile_workspace_access { WORKSPACE_NONE, WORKSPACE_RO, WORKSPACE_RW };
enum profile_scope { SCOPE_SESSION, SCOPE_AGENT, SCOPE_SHARED };
enum profile_reachability { REACH_EXEC, REACH_SSH, REACH_HTTP };
enum profile_strategy {
    ROUTE_PREFER_SELF_HOSTED,
    ROUTE_LOWEST_COST,
    ROUTE_LOWEST_LATENCY,
    ROUTE_EXPLICIT,
};
enum profile_calls { CALLS_STANDARD, CALLS_STRICT };
enum profile_cost { COST_SELF_HOSTED, COST_SAAS_METERED };
enum profile_latency { LATENCY_INSTANT, LATENCY_SECONDS, LATENCY_MINUTES };

struct profile {
    const char *id; /* "profile.NAME" */
    uint32_t version;
    const char *description; /* NULL: none */
    const char *extension;   /* "ext.NAME" */
    struct {
        enum profile_isolation level;
        enum profile_system system;
        enum profile_side_channels side_channels;
    } isolation;
    struct {
        enum profile_network otherwise; /* network.default */
        enum profile_worker worker;
        unsigned most;               /* enum egress_reach: the limit of what requests may add */
        struct json_objects egress;  /* of struct egress_endpoint */
        struct egress_policy policy; /* the same, checked: for egress_join(), egress_compile() */
    } network;
    struct {
        enum profile_workspace_mode mode;
        enum profile_workspace_access access;
    } workspace;
    enum profile_scope scope_default;
    struct {
        int64_t usual; /* ttl.default; nanoseconds, like the other two */
        int64_t max;
        int64_t idle_reap; /* 0: never */
    } ttl;
    struct {
        double cpu;
        uint32_t memory_mb, pids, disk_mb, terminals;
    } resources;
    struct {
        enum profile_calls calls;
        struct json_strs allow; /* names of lib/ipc/kernel.h */
    } kernel;
    const char *image;    /* NULL: the host's system directories */
    bool writable_system; /* … are writable through the sandbox's own layer */
    const char *workdir, *user;
    struct json_map env;
    struct json_strs caps; /* names of lib/proc/caps.h */
    struct {
        const char *instructions; /* NULL: none */
        struct json_strs secret_refs;
    } setup;
    struct {
        const char *prefer; /* NULL: no preference */
        struct json_strs fallback;
    } placement;
    enum profile_reachability reachability;
    struct {
        enum profile_strategy strategy;
        uint64_t max_cost_per_hour; /* micro-credits; 0: no limit */
        enum profile_isolation require_isolation;
        bool has_require_isolation;
        const char *region, *gpu; /* NULL: any region; no GPU */
        bool attestation;
    } route;
    enum command_recording record_commands;
    struct {
        uint32_t min, max;
    } pool;
    struct {
        enum profile_cost cost_class;
        enum profile_latency latency_class;
    } metadata;

    struct arena arena_;
    struct profile *base_; /* of a derived one: referenced, because it borrows from it */
    unsigned refs_;
};

extern const struct json_field profile_fields[];
extern const size_t profile_field_count;

/* *ret gets the first reference. Messages name line and field: "line 4: ttl.max: …". */
int profile_read(struct str yaml, struct profile **ret, struct err *e);
/* The same, but reports every mistake with a message like that of profile_read(). Does not report
 * mistakes that may only be consequences of another one. */
int profile_read_all(struct str yaml, const struct json_mistakes *all, struct profile **ret,
                     struct err *e);

/* The name of a profile: "profile.NAME@VERSION". */
struct profile_name {
    char id[PROFILE_ID_MAX];
    uint32_t version; /* 0: unknown, like the id */
};

/* The same for a file below the directory dir; flags as in lib/yaml/file.h. *ret_name is also set
 * for an invalid file, if its id and version are valid. */
int profile_read_file(int dir, const char *file, unsigned flags, struct profile **ret,
                      struct profile_name *ret_name, struct err *e);

/* References are counted across threads: a catalog may be loaded by one thread and used by
 * another. */
struct profile *profile_ref(struct profile *p);
void profile_unref(struct profile *p);
void profile_unrefp_(struct profile **p); /* for AUTO() */

/* Values in the place of a profile's own; 0 and NULL: unchanged. */
struct profile_changes {
    double cpu;
    uint32_t memory_mb, pids, disk_mb;
    const char *user, *workdir; /* the user may also be UID:GID */
    const struct json_strs *caps;
};

/* Makes a profile with these values, whose id and version are those of p; a reference to p itself
 * if nothing differs. -ERR_INVALID names the member that a profile could not have either. */
int profile_derive(struct profile *p, const struct profile_changes *c, struct profile **ret,
                   struct err *e);

/* 0 if one of these backends ("ext.local", …) can run it, else -ERR_UNSUPPORTED with the
 * reason. */
int profile_available(const struct profile *p, struct json_strs backends, struct err *e);

void profile_write(const struct profile *p, struct json_writer *w);

/* Thousandths of a processor. */
uint32_t profile_cpu_milli(const struct profile *p);

/* Checks that the table cannot express. Private to the module. */
int profile_check_(struct profile *p, const struct json *document, struct arena *a,
                   /* all NULL: stop at the first */
                   const struct json_mistakes *all, struct err *e);

#endif
