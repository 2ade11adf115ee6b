/* The daemon's configuration. Nothing has to be configured: every field has a default.
 *
 * What is said later wins, field by field (a list as a whole):
 *
 *     1. the defaults of config_fields
 *     2. /etc/sandboxer/sandboxer.yaml
 *     3. unless we are root, $XDG_CONFIG_HOME/sandboxer/sandboxer.yaml
 *     4. SANDBOXER_SOCKET, SANDBOXER_STATE, SANDBOXER_HUB_URL, SANDBOXER_HOST
 *
 * A file that the caller names stands in for 2 and 3. A plain user's daemon does not take over
 * where root's daemon listens, who it runs as and where it keeps its state. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "json/bind.h"

#define CONFIG_LISTEN_DEFAULT "127.0.0.1:7700" /* of a --listen without an address */
#define CONFIG_HOST_LOCAL     "local"          /* this machine, as a host's name */

enum {
    CONFIG_BYTES_MAX = 256 << 10, /* of a file */
    CONFIG_DEPTH_MAX = 8,
    CONFIG_SOCKET_MAX = 107, /* bytes of a unix socket's path */
    CONFIG_HOSTS_MAX = 256,
    CONFIG_RESOLVERS_MAX = 3,
    CONFIG_PLACES_MAX = 256, /* of egress.local and egress.listed */
    CONFIG_WORDS_MAX = 32,   /* of a command */
    CONFIG_REGISTRIES_MAX = 64,
    CONFIG_ADDRESSES_MAX = 8, /* of one registry */
};

extern const char *const config_trust_modes[], *const config_trust_failures[];
enum config_trust { TRUST_APPRENTICE, TRUST_JOURNEYMAN, TRUST_MASTER };

struct config_host {
    const char *name;
    const char *address; /* as ssh takes it: host, user@host */
    struct json_map labels;
};

/* Who takes a step around an untrusted run; nothing is set: we do. */
struct config_step {
    struct json_strs command;
    struct {
        struct json_strs command;
        const char *url, *tool;
    } mcp;
};

/* A registry that is more, or less, than any other. */
struct config_registry {
    const char *host;           /* HOST or HOST:PORT, as references have it */
    bool http;                  /* it is spoken to in the clear */
    struct json_strs addresses; /* that it may be at though they are not public */
    const char *creds_file;     /* USER:PASSWORD; NULL: none */
    const char *ca_file;        /* certificates that count instead of the system's; NULL: those */
};

struct config_address {
    char ip[46]; /* text, IPv4 or IPv6 without brackets */
    uint16_t port;
};

struct config {
    const char *listen;      /* NULL: no TCP; else in `address` too */
    bool listen_unencrypted; /* other machines may reach it */
    struct {
        const char *name;              /* NULL: none; lower case */
        const char *listen;            /* NULL: no HTTPS; else in `domain_address` too */
        const char *certificate, *key; /* files; NULL: an authority of our own makes them */
        int64_t renew;                 /* how often */
        bool public_suffix;            /* browsers keep its names apart */
    } domain;
    struct {
        const char *path;
        const char *mode;  /* octal digits; in `socket_mode` too */
        const char *group; /* NULL: that of the daemon */
    } socket;
    const char *state;
    const char *user; /* NULL: who started the daemon */
    const char *host; /* NULL: where the profile says */
    struct {
        const char *url;          /* NULL: no hub */
        const char *headers_file; /* NULL: none */
        int64_t timeout;
        bool egress; /* denials, too */
    } hub;
    struct {
        enum log_level level;
        enum log_format format;
    } log;
    struct {
        /* Per owner, 0: a quarter of all; config_share() */
        uint32_t connections, connections_per_owner, connections_unauthenticated;
        uint32_t requests_in_flight, requests_per_owner;
        uint64_t buffered_bytes, buffered_bytes_per_owner;
        uint64_t body_bytes;
        int64_t body_timeout;
        uint32_t link_checks;                        /* in a second */
        uint32_t sandboxes_max, sandboxes_per_owner; /* config_share() */
        uint32_t processes_per_owner;                /* background processes on record */
        uint64_t output_per_sandbox, output_per_owner, snapshot_bytes_per_owner;
        uint64_t events_keep, events_per_owner; /* in all; of one owner in a day */
        uint64_t egress_logs_per_owner, upload_bytes_per_owner;
        struct {
            uint64_t memory; /* 0: half of the machine's */
            uint64_t io;     /* bytes per second; 0: no limit */
            uint32_t pids;   /* 0: a quarter of the machine's */
            double cpu;      /* processors; 0: no limit */
        } owner;
    } limits;
    struct {
        bool enabled;
        uint32_t total_max;
    } pool;
    struct {
        uint32_t workers;           /* 0: as many as processors */
        uint64_t audit_max;         /* bytes of a sandbox's log */
        int64_t audit_keep;         /* how long its records are kept */
        unsigned audit_overflow;    /* enum config_overflow: where an owner's logs are full */
        struct json_strs resolvers; /* none: those of the system */
        const char *upstream;       /* NULL: straight */
        unsigned most;              /* enum egress_reach (policy/egress_ceiling.h) */
        struct json_strs local;     /* places that are not public, for everybody */
        struct json_strs listed;    /* places that `most: listed` allows */
    } egress;
    struct {
        unsigned driver;       /* of config_drivers */
        uint64_t size;         /* of a file system in a file; 0: half of what is free */
        int64_t measure_after; /* nanoseconds from a capture to the measure of its layer */
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
    struct json_objects hosts; /* of struct config_host */
    struct {
        const char *registry;           /* of references that name none; NULL: there is none */
        struct json_objects registries; /* of struct config_registry */
        uint64_t max_bytes;             /* of one image, packed or unpacked */
        uint64_t free_min;              /* that images and captures leave on the disk */
    } images;
    struct {
        const char *token_file; /* NULL: no gateway is believed */
        enum config_trust trust;
    } gateway;

    struct {
        const char *key_file; /* NULL: secrets/key in the state directory */
    } secrets;

    struct {
        const char *bundle; /* file; NULL: the built-in one */
        unsigned mode;      /* 0: as the bundle says; else enum trust_mode + 1 (trust/bundle.h) */
        unsigned failure;   /* enum trust_failure (trust/decide.h) */
        bool self_approval; /* a user may decide what the same user asked for, on a terminal */
        enum config_trust role; /* that sessions of users get */
        struct json_strs masters;
        int64_t silence, grace;
    } trust;

    struct {
        unsigned block; /* of config_severities */
        int64_t timeout;
        struct config_step preflight, postflight;
    } scan;

    struct config_address address, domain_address;
    unsigned socket_mode;
    bool inherited_open; /* no option: a socket that the daemon inherited is open to other users */
};

enum config_overflow { CONFIG_AUDIT_DENY, CONFIG_AUDIT_DROP_OLDEST }; /* egress.audit_overflow */
extern const char *const config_drivers[];    /* of storage.driver; ended by NULL */
extern const char *const config_severities[]; /* from the least; NULL at the end */

/* What one caller may have of `total`: as it is configured, or if that is 0, a quarter. */
static inline uint64_t config_share(uint64_t configured, uint64_t total)
{
    uint64_t share = configured ? configured : total / 4;

    return share ? share : 1;
}

extern const struct json_field config_fields[];
extern const size_t config_field_count;

/* path NULL: the usual files, which need not be there. Everything *ret points to is on the arena. A
 * message names file, line and field, or the variable of the environment. */
int config_load(const char *path, struct config *ret, struct arena *a, struct err *e);

/* Whether a client other than the user who runs the daemon can reach it: it listens on TCP, serves
 * a domain, or its socket, its own or an inherited one, is open to others. Defaults that separate
 * tenants from each other and from the host depend on it. */
bool config_serves_tenants(const struct config *c);

/* "127.0.0.1:7700", "[::1]:7700": an address, no name. */
/* Whether TCP may be served without TLS at this address: it is of this machine's loopback, or the
 * configuration says so. */
int config_listen_check(const struct config *c, const struct config_address *at, struct err *e);

int config_address_read(struct str text, struct config_address *ret, struct err *e);

enum config_format {
    CONFIG_YAML, /* with a comment for each field; fields without a value are comments too */
    CONFIG_JSON,
};

/* What holds, as a file that config_load() takes. */
int config_write(const struct config *c, enum config_format format, struct buf *out, struct err *e);

#endif
