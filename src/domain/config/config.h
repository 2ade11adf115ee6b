/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration. Every field has a default, so no file is needed.
 *
 * Later sources override earlier ones, field by field (a list as a whole):
 *
 *     1. the defaults of config_fields
 *     2. /etc/sandboxer/sandboxer.yaml
 *     3. unless we are root, $XDG_CONFIG_HOME/sandboxer/sandboxer.yaml
 *     4. SANDBOXER_SOCKET, SANDBOXER_STATE, SANDBOXER_HUB_URL, SANDBOXER_HOST
 *
 * A file that the caller names replaces 2 and 3. From 2, an unprivileged user's daemon ignores the
 * fields that identify root's daemon: listeners, user and state directory. */
#ifndef DOMAIN_CONFIG_CONFIG_H
#define DOMAIN_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/json/bind.h"

#define CONFIG_LISTEN_DEFAULT "127.0.0.1:7700" /* for a --listen without an address */
#define CONFIG_HOST_LOCAL     "local"          /* the name of this machine as a host */

enum {
    CONFIG_BYTES_MAX = 256 << 10, /* of one file */
    CONFIG_DEPTH_MAX = 8,
    CONFIG_SOCKET_MAX = 107, /* bytes of a unix socket's path */
    CONFIG_HOSTS_MAX = 256,
    CONFIG_RESOLVERS_MAX = 3,
    CONFIG_PLACES_MAX = 256, /* entries of egress.local, egress.names and egress.listed */
    CONFIG_WORDS_MAX = 32,   /* words of a command */
    CONFIG_REGISTRIES_MAX = 64,
    CONFIG_ADDRESSES_MAX = 8, /* addresses of one registry */
};

extern const char *const config_trust_modes[], *const config_trust_failures[];
enum config_trust { TRUST_APPRENTICE, TRUST_JOURNEYMAN, TRUST_MASTER };

struct config_host {
    const char *name;
    const char *address; /* argument of ssh: host, user@host */
    struct json_map labels;
};

/* The external hook for a step around an untrusted run; all NULL: the built-in step. */
struct config_step {
    struct json_strs command;
    struct {
        struct json_strs command;
        const char *url, *tool;
    } mcp;
};

/* A registry with special rights or credentials. */
struct config_registry {
    const char *host;           /* HOST or HOST:PORT, as in references */
    bool http;                  /* use HTTP without TLS */
    struct json_strs addresses; /* allowed addresses that are not public */
    const char *creds_file;     /* USER:PASSWORD; NULL: none */
    const char *ca_file;        /* CA certificates that replace the system's; NULL: the system's */
};

struct config_address {
    char ip[46]; /* text, IPv4 or IPv6 without brackets */
    uint16_t port;
};

struct config {
    const char *listen;      /* NULL: no TCP; parsed into `address` */
    bool listen_unencrypted; /* allow TCP that other machines can reach */
    struct {
        const char *name;              /* NULL: none; lower case */
        const char *listen;            /* NULL: no HTTPS; parsed into `domain_address` */
        const char *certificate, *key; /* files; NULL: issued by our own certificate authority */
        int64_t renew;                 /* interval of renewal */
        bool public_suffix;            /* browsers treat its subdomains as separate sites */
    } domain;
    struct {
        const char *path;
        const char *mode;  /* octal digits; parsed into `socket_mode` */
        const char *group; /* NULL: the daemon's group */
    } socket;
    const char *state;
    const char *user; /* NULL: the user who started the daemon */
    const char *host; /* NULL: as the profile says */
    struct {
        const char *url;          /* NULL: no hub */
        const char *headers_file; /* NULL: none */
        int64_t timeout;
        bool egress; /* denials are delivered, too */
    } hub;
    struct {
        enum log_level level;
        enum log_format format;
    } log;
    struct {
        /* Per owner, 0: a quarter of the total; see config_share() */
        uint32_t connections, connections_per_owner, connections_unauthenticated;
        uint32_t requests_in_flight, requests_per_owner;
        uint64_t buffered_bytes, buffered_bytes_per_owner;
        uint64_t body_bytes;
        int64_t body_timeout;
        uint32_t link_checks;                        /* in a second */
        uint32_t sandboxes_max, sandboxes_per_owner; /* see config_share() */
        uint32_t processes_per_owner;                /* recorded background processes */
        uint64_t output_per_sandbox, output_per_owner, snapshot_bytes_per_owner;
        uint64_t events_keep, events_per_owner; /* in total; of one owner per day */
        uint64_t egress_logs_per_owner, upload_bytes_per_owner;
        /* at the same time; see config_share() */
        uint32_t workspace_copies, workspace_copies_per_owner;
        struct {
            uint64_t memory; /* 0: half of the machine's */
            uint64_t io;     /* bytes per second; 0: no limit */
            uint32_t pids;   /* 0: a quarter of the machine's */
            double cpu;      /* processors; 0: no limit */
            uint64_t disk;   /* 0: a quarter of what the storage is on */
        } owner;
        struct {
            uint64_t memory, disk; /* bytes; 0: the most that any profile has; the same below */
            uint32_t pids;
            double cpu;
        } sandbox; /* the most that a request may ask for beyond its profile */
    } limits;
    struct {
        bool enabled;
        uint32_t total_max;
    } pool;
    struct {
        uint32_t workers;           /* 0: as many as processors */
        uint64_t audit_max;         /* bytes of a sandbox's log */
        int64_t audit_keep;         /* how long its files are kept */
        unsigned audit_overflow;    /* enum config_overflow: when an owner's logs are full */
        struct json_strs resolvers; /* empty: the system's */
        const char *upstream;       /* NULL: connect directly */
        unsigned most;              /* enum egress_reach (domain/policy/egress_ceiling.h) */
        struct json_strs local;     /* places that are not public, allowed for all owners */
        struct json_strs names;     /* names at addresses that are not public (egress_names.h) */
        struct json_strs listed;    /* places that `most: listed` allows */
    } egress;
    struct {
        unsigned driver;       /* index in config_drivers */
        uint64_t size;         /* of a file system image; 0: half of the free space */
        int64_t measure_after; /* nanoseconds from a capture to the digest of its layer */
    } storage;
    struct {
        struct json_strs dirs;
    } profiles;
    struct {
        struct json_strs roots;
        int64_t patience;
    } workspaces;
    struct {
        int64_t max, grace, paused;
    } ttl;
    struct {
        int64_t sandboxes, events, unsynced;
    } retention;
    int64_t idle_exit;         /* of a daemon that was started on demand; 0: it stays */
    struct json_objects hosts; /* of struct config_host */
    struct {
        const char *registry;           /* registry of references without a host; NULL: none */
        struct json_objects registries; /* of struct config_registry */
        uint64_t max_bytes;             /* of one image, compressed or unpacked */
        uint64_t free_min;              /* free disk space that images and captures leave */
    } images;
    struct {
        enum config_trust trust;
    } gateway;

    struct {
        const char *key_file; /* NULL: secrets/key in the state directory */
    } secrets;

    struct {
        const char *bundle;     /* file; NULL: the built-in one */
        unsigned mode;          /* 0: as in the bundle; else enum trust_mode + 1 (trust/bundle.h) */
        unsigned failure;       /* enum trust_failure (trust/decide.h) */
        bool self_approval;     /* the daemon's user may decide own requests, on a terminal */
        enum config_trust role; /* role of users' sessions */
        struct json_strs masters;
        int64_t silence, grace;
    } trust;

    struct {
        unsigned block; /* index in config_severities */
        int64_t timeout;
        struct config_step preflight, postflight;
    } scan;

    struct config_address address, domain_address;
    unsigned socket_mode;
    bool inherited_open; /* not a field: an inherited socket of the daemon is open to other users */
};

enum config_overflow { CONFIG_AUDIT_DENY, CONFIG_AUDIT_DROP_OLDEST }; /* egress.audit_overflow */
extern const char *const config_drivers[];    /* values of storage.driver; ended by NULL */
extern const char *const config_severities[]; /* lowest first; ended by NULL */

/* Processes that copy workspaces: fewer than the supervisor starts (daemon/copies.h), which may not
 * have noticed the end of some of them yet. */
enum { CONFIG_COPIES_MAX = 224 };

/* The share of one owner in `total`: the configured value, or a quarter if that is 0. */
static inline uint64_t config_share(uint64_t configured, uint64_t total)
{
    uint64_t share = configured ? configured : total / 4;

    return share ? share : 1;
}

/* Files that the configuration names and the operator replaces: their paths are checked, and the
 * control plane can read the directories of those that it reads itself (daemon/plane_fence.c). */
struct config_file_field {
    const char *field; /* "trust.bundle" */
    size_t offset;     /* in struct config; const char *, NULL: not set */
    bool plane;        /* the control plane reads it; else the supervisor, or a start */
};
enum { CONFIG_FILES = 3 };
extern const struct config_file_field config_files[CONFIG_FILES];
static inline const char *config_file(const struct config *c, const struct config_file_field *f)
{
    return *(const char *const *)(const void *)((const char *)c + f->offset);
}

extern const struct json_field config_fields[];
extern const size_t config_field_count;

/* path NULL: the default files, which may be absent. *ret points into the arena. Error messages
 * name file, line and field, or the environment variable. */
int config_load(const char *path, struct config *ret, struct arena *a, struct err *e);

/* Whether a client other than the user who runs the daemon can reach it: it listens on TCP, serves
 * a domain, or its socket, its own or an inherited one, is open to others. Defaults that separate
 * tenants from each other and from the host depend on it. */
bool config_serves_tenants(const struct config *c);

/* Whether trust.self_approval may be on: only where no client but the user who runs the daemon can
 * reach it. */
int config_self_approval_check(const struct config *c, struct err *e);

/* "127.0.0.1:7700", "[::1]:7700": an address, not a name. */
/* Whether TCP may be served without TLS at this address: a loopback address, or allowed by
 * listen_unencrypted. */
int config_listen_check(const struct config *c, const struct config_address *at, struct err *e);

int config_address_read(struct str text, struct config_address *ret, struct err *e);

enum config_format {
    CONFIG_YAML, /* with a comment for each field; unset fields are commented out */
    CONFIG_JSON,
};

/* Writes the effective configuration as a file that config_load() accepts. */
int config_write(const struct config *c, enum config_format format, struct buf *out, struct err *e);

#endif
