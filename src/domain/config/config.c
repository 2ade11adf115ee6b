#include "config/config.h"

#include <limits.h>
#include <unistd.h>

#include "base/clock.h"
#include "config/paths.h"
#include "config/sources.h"
#include "policy/egress_ceiling.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)

static const char system_file[] = "/etc/sandboxer/sandboxer.yaml";

/* Each list is in the order of its enum. */
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const formats[] = { "plain", "json", NULL };
const char *const config_trust_failures[] = { "static", "closed", "open", NULL };
const char *const config_trust_modes[] = { "bundle", "enforce", "audit", "off", NULL };
static const char *const trusts[] = { "apprentice", "journeyman", "master", NULL };

static const char *const config_overflows[] = { "deny", "drop_oldest", NULL };
const char *const config_drivers[] = { "auto", "memory", "plain", "reflink", "btrfs", NULL };
const char *const config_severities[] = { "info", "low", "medium", "high", "critical", NULL };

/* Objects are members of struct config, so their fields' offsets count from the member. */
#define IN(object, member) JSON_AT(__typeof__(((struct config *)NULL)->object), member)
#define AT(member)         JSON_AT(struct config, member)
#define OF_OWNER(member)   JSON_AT(__typeof__(((struct config *)NULL)->limits.owner), member)

static const struct json_field socket_fields[] = {
    { "path", JSON_KIND_STR, IN(socket, path), .max = CONFIG_SOCKET_MAX,
      .doc = "Unix socket of the API; `SANDBOXER_SOCKET` overrides." },
    { "mode", JSON_KIND_STR, IN(socket, mode), .max = 4, .preset = "0600",
      .doc = "Its permissions, as octal digits in quotes." },
    { "group", JSON_KIND_STR, IN(socket, group), .max = 32,
      .doc = "Group that the socket belongs to." },
};

static const struct json_field hub_fields[] = {
    { "url", JSON_KIND_STR, IN(hub, url), .max = 2048,
      .doc = "Where lifecycle events are sent; `SANDBOXER_HUB_URL` overrides." },
    { "headers_file", JSON_KIND_STR, IN(hub, headers_file), .max = 255,
      .doc =
          "File with a header a line to send along, such as a bearer token; mode 0600, of whoever "
          "starts the daemon; read at its start and at SIGHUP." },
    { "timeout", JSON_KIND_DURATION, IN(hub, timeout), .min = 100 * NS_PER_MS, .max = HOUR,
      .preset = "10s", .doc = "How long one delivery may take." },
    { "egress", JSON_KIND_BOOL, IN(hub, egress), .preset = "false",
      .doc = "Whether it is sent what egress denied, too." },
};

static const struct json_field log_fields[] = {
    { "level", JSON_KIND_ENUM, IN(log, level), .names = levels, .preset = "info",
      .doc = "The least important lines that are written." },
    { "format", JSON_KIND_ENUM, IN(log, format), .names = formats, .preset = "plain",
      .doc = "Lines for people or for programs." },
};

/* As resources of profiles: what a sandbox may have of its own is there. */
static const struct json_field owner_limit_fields[] = {
    { "memory", JSON_KIND_BYTES, OF_OWNER(memory), .min = 0, .max = INT64_C(1) << 50,
      .doc =
          "Memory, with files on the storage driver `memory`, that all sandboxes of one owner may "
          "use together; 0: half of the machine's. "
          "Administrators have no limits as owners." },
    { "pids", JSON_KIND_UINT, OF_OWNER(pids), .min = 0, .max = 1 << 22, .preset = "0",
      .doc = "Processes and threads likewise; 0: a quarter of the machine's `pid_max`." },
    { "cpu", JSON_KIND_DOUBLE, OF_OWNER(cpu), .min = 0, .max = 1024, .preset = "0",
      .doc =
          "Processors likewise; 0: no limit. Owners always get equal shares of a busy machine." },
    { "io", JSON_KIND_BYTES, OF_OWNER(io), .min = 0, .max = INT64_C(1) << 50,
      .doc = "Bytes per second that they may read, and write, on the disk of the storage; 0: no "
             "limit. Needs cgroup v2." },
};

static const struct json_field limit_fields[] = {
    { "connections", JSON_KIND_UINT, IN(limits, connections), .min = 1, .max = 100000,
      .preset = "4096",
      .doc = "Connections of authenticated callers at once, streams and proxied ports included; a "
             "sixteenth is reserved for administrators on the unix socket." },
    { "connections_per_owner", JSON_KIND_UINT, IN(limits, connections_per_owner), .min = 0,
      .max = 100000, .preset = "0",
      .doc = "Of these, connections of one owner, seven eighths with one token; 0: a quarter." },
    { "connections_unauthenticated", JSON_KIND_UINT, IN(limits, connections_unauthenticated),
      .min = 0, .max = 100000, .preset = "0",
      .doc = "TCP connections at once, in addition, that no token has authenticated yet; half of "
             "them from one address; 0: an eighth of `limits.connections`." },
    { "requests_in_flight", JSON_KIND_UINT, IN(limits, requests_in_flight), .min = 1, .max = 100000,
      .preset = "1024",
      .doc = "Requests being worked on at once; a sixteenth is reserved for administrators on the "
             "unix socket." },
    { "requests_per_owner", JSON_KIND_UINT, IN(limits, requests_per_owner), .min = 0, .max = 100000,
      .preset = "0",
      .doc = "Of these, requests of one owner, seven eighths with one token; 0: a quarter." },
    { "buffered_bytes", JSON_KIND_BYTES, IN(limits, buffered_bytes), .min = 1 << 20,
      .max = INT64_C(1) << 40, .preset = "256M",
      .doc = "Memory for bodies of requests and for answers that clients have not read yet; a "
             "sixteenth is reserved for administrators on the unix socket." },
    { "buffered_bytes_per_owner", JSON_KIND_BYTES, IN(limits, buffered_bytes_per_owner), .min = 0,
      .max = INT64_C(1) << 40,
      .doc = "Of this, memory of one owner, seven eighths with one token; 0: a quarter." },
    { "body_bytes", JSON_KIND_BYTES, IN(limits, body_bytes), .min = 1024, .max = INT64_C(1) << 40,
      .preset = "8M",
      .doc = "Body of a request that carries a file, a policy or a program's arguments, unless it "
             "is a stream; bodies of other requests have 256 KiB at most." },
    { "body_timeout", JSON_KIND_DURATION, IN(limits, body_timeout), .min = NS_PER_S, .max = HOUR,
      .preset = "60s",
      .doc = "How long the body of a request may take; a streamed one may take longer, as long as "
             "it brings 1 KiB a second on average." },
    { "link_checks", JSON_KIND_UINT, IN(limits, link_checks), .min = 2, .max = 10000000,
      .preset = "50000",
      .doc = "Comparisons in a second for E2B's and Daytona's signed links, of which one address "
             "has half; a link that names no sandbox is compared with every sandbox." },
    { "sandboxes_max", JSON_KIND_UINT, IN(limits, sandboxes_max), .min = 1, .max = 1000000,
      .preset = "1000",
      .doc = "Sandboxes alive at once, prepared ones included; a sixteenth is reserved for "
             "administrators on the unix socket." },
    { "sandboxes_per_owner", JSON_KIND_UINT, IN(limits, sandboxes_per_owner), .min = 0,
      .max = 1000000, .preset = "0",
      .doc = "Of these, sandboxes of one owner, seven eighths with one token; 0: a quarter." },
    { "processes_per_owner", JSON_KIND_UINT, IN(limits, processes_per_owner), .min = 1,
      .max = 1000000, .preset = "8192",
      .doc =
          "Background processes of one owner, seven eighths with one token, running or kept with "
          "their output; 256 of one sandbox." },
    { "output_per_sandbox", JSON_KIND_BYTES, IN(limits, output_per_sandbox), .min = 64 << 10,
      .max = INT64_C(1) << 40, .preset = "64M",
      .doc = "Output of background processes kept for one sandbox; then each keeps less, and what "
             "ended processes wrote makes room." },
    { "output_per_owner", JSON_KIND_BYTES, IN(limits, output_per_owner), .min = 64 << 10,
      .max = INT64_C(1) << 40, .preset = "1G",
      .doc = "The same for all sandboxes of one owner, seven eighths with one token; a background "
             "process needs 64 KiB of it to start." },
    { "snapshot_bytes_per_owner", JSON_KIND_BYTES, IN(limits, snapshot_bytes_per_owner),
      .min = 1 << 20, .max = INT64_C(1) << 50, .preset = "64G",
      .doc = "Snapshots of one owner on disk, seven eighths with one token, imported ones "
             "included." },
    { "events_keep", JSON_KIND_UINT, IN(limits, events_keep), .min = 1000, .max = 1000000000,
      .preset = "1000000", .doc = "Events kept at most; the oldest go first." },
    { "events_per_owner", JSON_KIND_UINT, IN(limits, events_per_owner), .min = 0, .max = 1000000000,
      .preset = "0",
      .doc = "Events that one owner may cause in a day, seven eighths with one token, half of them "
             "at once; then requests that start something are refused, and destroy works. 0: a "
             "quarter of `events_keep`." },
    { "egress_logs_per_owner", JSON_KIND_BYTES, IN(limits, egress_logs_per_owner), .min = 0,
      .max = INT64_C(1) << 50,
      .doc = "Egress logs of one owner's sandboxes, seven eighths with one token, ended ones "
             "included until they expire (`egress.audit_keep`); then `egress.audit_overflow` "
             "applies. 0: a sixteenth of the file system, 256M at least." },
    { "upload_bytes_per_owner", JSON_KIND_BYTES, IN(limits, upload_bytes_per_owner), .min = 1 << 20,
      .max = INT64_C(1) << 50, .preset = "8G",
      .doc = "Files that one owner has uploaded, seven eighths with one token, for templates that "
             "are not built yet, and snapshot files that are being imported." },
    { "owner", JSON_KIND_OBJECT, IN(limits, owner), JSON_FIELDS(owner_limit_fields) },
};

static const struct json_field pool_fields[] = {
    { "enabled", JSON_KIND_BOOL, IN(pool, enabled), .preset = "true",
      .doc = "Whether sandboxes are prepared ahead, as profiles ask for." },
    { "total_max", JSON_KIND_UINT, IN(pool, total_max), .min = 0, .max = 1000000, .preset = "16",
      .doc = "Prepared sandboxes of all profiles together." },
};

static const struct json_field egress_fields[] = {
    { "workers", JSON_KIND_UINT, IN(egress, workers), .min = 0, .max = 256, .preset = "0",
      .doc = "Processes that let sandboxes' connections out; 0: as many as processors." },
    { "audit_max", JSON_KIND_BYTES, IN(egress, audit_max), .min = 64 << 10, .max = INT64_C(1) << 40,
      .preset = "128M",
      .doc = "Egress log of one sandbox. When it is full, the sandbox is denied everything "
             "(`audit_full`) until records expire or this is raised." },
    { "audit_keep", JSON_KIND_DURATION, IN(egress, audit_keep), .min = 60 * NS_PER_S,
      .max = 3650 * DAY, .preset = "7d",
      .doc = "How long records of egress logs are kept, also after their sandbox's end; its "
             "record is kept as long." },
    { "audit_overflow", JSON_KIND_ENUM, IN(egress, audit_overflow), .names = config_overflows,
      .preset = "deny",
      .doc = "Where the logs of an owner have `limits.egress_logs_per_owner`: `deny` its egress "
             "(`audit_full`), or `drop_oldest`: logs of its ended sandboxes go before their time, "
             "each with an event (`audit.dropped`)." },
    { "resolvers", JSON_KIND_STRS, IN(egress, resolvers), .max = CONFIG_RESOLVERS_MAX,
      .doc = "DNS servers for names that sandboxes may reach, as `ADDRESS` or `ADDRESS:PORT`; by "
             "default those of the system." },
    { "upstream", JSON_KIND_STR, IN(egress, upstream), .max = 255,
      .doc = "Proxy that everything allowed goes out through: `http://ADDRESS:PORT` or "
             "`socks5://ADDRESS:PORT`." },
    { "most", JSON_KIND_ENUM, IN(egress, most), .names = egress_reach_names, .preset = "public",
      .doc = "The most that a caller who is no administrator may let a sandbox reach "
             "(`docs/egress-policy.md`, \"Ceilings\")." },
    { "local", JSON_KIND_STRS, IN(egress, local), .max = CONFIG_PLACES_MAX,
      .doc = "Addresses that are not public and that every caller may let a sandbox reach, as "
             "`ADDRESS[/BITS]:PORT[,PORT…]`, `[ADDRESS6[/BITS]]:PORT`; `*` is every port." },
    { "listed", JSON_KIND_STRS, IN(egress, listed), .max = CONFIG_PLACES_MAX,
      .doc = "Destinations that `most: listed` allows, as `HOST[:PORT[,PORT…]]` or "
             "`ADDRESS/BITS[:PORT]`; without a port, 443." },
};

static const struct json_field storage_fields[] = {
    { "driver", JSON_KIND_ENUM, IN(storage, driver), .names = config_drivers, .preset = "auto",
      .doc = "Where sandboxes write to; by itself the best that the state directory offers "
             "(`docs/snapshots.md`)." },
    { "size", JSON_KIND_BYTES, IN(storage, size), .max = INT64_C(1) << 50,
      .doc = "Of the file that has a btrfs, where sandboxes write to one and the state directory "
             "has another file system: what it may grow to, 256M at least; 0: as long as "
             "`images.free_min` is left on the disk." },
    { "measure_after", JSON_KIND_DURATION, IN(storage, measure_after), .min = 0, .max = DAY,
      .preset = "15s",
      .doc = "How long after it was captured a layer is read and hashed, while nobody else wants "
             "the machine." },
};

static const struct json_field profiles_fields[] = {
    { "dirs", JSON_KIND_STRS, IN(profiles, dirs), .max = 16,
      .doc = "More directories of profiles; they win over the usual ones." },
};

static const struct json_field workspaces_fields[] = {
    { "roots", JSON_KIND_STRS, IN(workspaces, roots), .max = 16,
      .doc = "Directories below which API requests may name workspaces, opened with the rights of "
             "the user who asks; root's daemon has none by default. The sandboxer command opens "
             "directories itself and needs none." },
    { "patience", JSON_KIND_DURATION, IN(workspaces, patience), .min = NS_PER_S,
      .max = 24 * 3600 * NS_PER_S, .preset = "2m",
      .doc =
          "How long a copy may make no progress; then its file system hangs, and it is given up." },
};

static const struct json_field ttl_fields[] = {
    { "max", JSON_KIND_DURATION, IN(ttl, max), .min = NS_PER_S, .max = 30 * DAY, .preset = "7d",
      .doc = "The longest life of any sandbox, whatever its profile says." },
    { "grace", JSON_KIND_DURATION, IN(ttl, grace), .min = 0, .max = HOUR, .preset = "10s",
      .doc = "Time between telling the programs of an expired sandbox and killing them." },
    { "paused", JSON_KIND_DURATION, IN(ttl, paused), .min = 60 * NS_PER_S, .max = 3650 * DAY,
      .preset = "7d", .doc = "How long a sandbox may be paused; then it has expired." },
};

static const struct json_field retention_fields[] = {
    { "sandboxes", JSON_KIND_DURATION, IN(retention, sandboxes), .min = DAY, .max = 3650 * DAY,
      .preset = "7d",
      .doc =
          "How long finished sandboxes stay on record; a day at least, which limits of peers are "
          "counted over." },
    { "events", JSON_KIND_DURATION, IN(retention, events), .min = 60 * NS_PER_S, .max = 3650 * DAY,
      .preset = "30d", .doc = "How long events stay on record." },
    { "unsynced", JSON_KIND_DURATION, IN(retention, unsynced), .min = NS_PER_S, .max = 3650 * DAY,
      .preset = "7d",
      .doc = "How long the snapshot of changes is stored that could not be brought back to a "
             "workspace when its sandbox was destroyed." },
};

static const struct json_field host_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct config_host, name), .max = 253, .required = true,
      .doc = "What profiles and requests call it; `local` is this machine." },
    { "address", JSON_KIND_STR, JSON_AT(struct config_host, address), .max = 255, .required = true,
      .doc = "Destination as ssh takes it: `build1`, `user@build1`." },
    { "labels", JSON_KIND_MAP, JSON_AT(struct config_host, labels), .max = 32,
      .doc = "Whatever placement is to know of it." },
};

#define REGISTRY(member) JSON_AT(struct config_registry, member)
static const struct json_field registry_fields[] = {
    { "host", JSON_KIND_STR, REGISTRY(host), .max = 260, .required = true,
      .doc = "Its name as references have it, with its port if they do." },
    { "http", JSON_KIND_BOOL, REGISTRY(http),
      .doc = "Whether it speaks HTTP in the clear; no other registry is spoken to so." },
    { "addresses", JSON_KIND_STRS, REGISTRY(addresses), .max = CONFIG_ADDRESSES_MAX,
      .doc = "Addresses it may be at though they are not public ones." },
    { "creds_file", JSON_KIND_STR, REGISTRY(creds_file), .max = 255,
      .doc = "File with `USER:PASSWORD`, which the daemon's user can read and nobody else." },
    { "ca_file", JSON_KIND_STR, REGISTRY(ca_file), .max = 255,
      .doc = "Certificates to trust for it instead of the system's." },
};

static const struct json_field images_fields[] = {
    { "registry", JSON_KIND_STR, IN(images, registry), .max = 260,
      .doc = "Registry of references that name none; by default they have none." },
    { "registries", JSON_KIND_OBJECTS, IN(images, registries), .max = CONFIG_REGISTRIES_MAX,
      JSON_FIELDS(registry_fields), .item_size = sizeof(struct config_registry),
      .doc = "Registries that are not public, or not encrypted, or want a password." },
    { "max_bytes", JSON_KIND_BYTES, IN(images, max_bytes), .min = 1 << 20, .max = INT64_C(1) << 50,
      .preset = "32G", .doc = "The largest image that is taken, packed or unpacked." },
    { "free_min", JSON_KIND_BYTES, IN(images, free_min), .min = 0, .max = INT64_C(1) << 50,
      .preset = "1G",
      .doc = "What images, snapshots, uploads and copies of what sandboxes wrote leave free on the "
             "disk; output of processes leaves as much, or a twentieth of a smaller disk." },
};

static const struct json_field gateway_fields[] = {
    { "token_file", JSON_KIND_STR, IN(gateway, token_file), .max = 255,
      .doc = "File with the token of a gateway on this machine; without it none is believed." },
    { "trust", JSON_KIND_ENUM, IN(gateway, trust), .names = trusts, .preset = "apprentice",
      .doc = "The most that a gateway's word on a caller can give." },
};

static const struct json_field secrets_fields[] = {
    { "key_file", JSON_KIND_STR, IN(secrets, key_file), .max = 255,
      .doc = "File with the keys that seal secrets in the store; without it secrets/key in the "
             "state directory." },
};

static const struct json_field trust_fields[] = {
    { "bundle", JSON_KIND_STR, IN(trust, bundle), .max = 255,
      .doc = "File that says who may call which tool; without it the built-in one." },
    { "mode", JSON_KIND_ENUM, IN(trust, mode), .names = config_trust_modes, .preset = "bundle",
      .doc = "Instead of the bundle's own mode; `bundle`: as it says." },
    { "failure", JSON_KIND_ENUM, IN(trust, failure), .names = config_trust_failures,
      .preset = "static",
      .doc = "What holds if it cannot be read at the start: the built-in one, nothing or "
             "everything." },
    { "role", JSON_KIND_ENUM, IN(trust, role), .names = trusts, .preset = "journeyman",
      .doc = "The role of sessions that users of the socket begin." },
    { "masters", JSON_KIND_STRS, IN(trust, masters), .max = 64,
      .doc = "Numbers of users who decide what waits for a master, besides administrators." },
    { "self_approval", JSON_KIND_BOOL, IN(trust, self_approval), .preset = "false",
      .doc = "Whether a user may approve on a terminal what the same user asked for (`approvals "
             "approve --self`)." },
    { "silence", JSON_KIND_DURATION, IN(trust, silence), .min = NS_PER_S, .max = 7 * DAY,
      .preset = "10m", .doc = "A session that nothing is heard of for so long ends." },
    { "grace", JSON_KIND_DURATION, IN(trust, grace), .min = 0, .max = HOUR, .preset = "30s",
      .doc = "How long a session waits for its client to come back." },
};

static const struct json_field step_mcp_fields[] = {
    { "command", JSON_KIND_STRS, JSON_AT(__typeof__(((struct config_step *)NULL)->mcp), command),
      .max = CONFIG_WORDS_MAX, .doc = "Program and arguments of a server that speaks on pipes." },
    { "url", JSON_KIND_STR, JSON_AT(__typeof__(((struct config_step *)NULL)->mcp), url),
      .max = 2048, .doc = "Or where a server is, over HTTP." },
    { "tool", JSON_KIND_STR, JSON_AT(__typeof__(((struct config_step *)NULL)->mcp), tool),
      .max = 128, .doc = "The tool to call; by default named as the step." },
};

static const struct json_field step_fields[] = {
    { "command", JSON_KIND_STRS, JSON_AT(struct config_step, command), .max = CONFIG_WORDS_MAX,
      .doc = "Program and arguments that take the step in place of ours." },
    { "mcp", JSON_KIND_OBJECT, JSON_AT(struct config_step, mcp), JSON_FIELDS(step_mcp_fields) },
};

static const struct json_field scan_fields[] = {
    { "block", JSON_KIND_ENUM, IN(scan, block), .names = config_severities, .preset = "high",
      .doc = "The least severe finding that keeps an untrusted program from running." },
    { "timeout", JSON_KIND_DURATION, IN(scan, timeout), .min = 100 * NS_PER_MS, .max = HOUR,
      .preset = "1m", .doc = "How long a step of one's own may take." },
    { "preflight", JSON_KIND_OBJECT, IN(scan, preflight), JSON_FIELDS(step_fields) },
    { "postflight", JSON_KIND_OBJECT, IN(scan, postflight), JSON_FIELDS(step_fields) },
};

static const struct json_field domain_fields[] = {
    { "name", JSON_KIND_STR, IN(domain, name), .min = 1, .max = 200,
      .doc = "Domain whose names lead to ports of sandboxes: `8080-ID.NAME`." },
    { "listen", JSON_KIND_STR, IN(domain, listen), .max = 64,
      .doc = "Address and port for HTTPS, as in `127.0.0.1:8443`; without it there is none." },
    { "certificate", JSON_KIND_STR, IN(domain, certificate), .min = 1, .max = 4095,
      .doc = "File (PEM) with the certificate for `*.NAME`, and what it is signed by; without it "
             "one is made, and signed by an authority of our own." },
    { "key", JSON_KIND_STR, IN(domain, key), .min = 1, .max = 4095,
      .doc = "File (PEM) with its key, without a passphrase." },
    { "renew", JSON_KIND_DURATION, IN(domain, renew), .min = NS_PER_S, .max = 30 * DAY,
      .preset = "1d",
      .doc = "How often the two are read again, or a new one is made; at SIGHUP, too." },
    { "public_suffix", JSON_KIND_BOOL, IN(domain, public_suffix), .preset = "false",
      .doc =
          "The domain is on the Public Suffix List, so browsers keep cookies of its names apart: "
          "cookies of previews keep their names." },
};

const struct json_field config_fields[] = {
    { "listen", JSON_KIND_STR, AT(listen), .max = 64,
      .doc = "Address and port for TCP, as in `127.0.0.1:7700`; without it there is none." },
    { "listen_unencrypted", JSON_KIND_BOOL, AT(listen_unencrypted), .preset = "false",
      .doc = "Accept a `listen` address that other machines reach, where tokens travel in clear." },
    { "domain", JSON_KIND_OBJECT, AT(domain), JSON_FIELDS(domain_fields) },
    { "socket", JSON_KIND_OBJECT, AT(socket), JSON_FIELDS(socket_fields) },
    { "state", JSON_KIND_STR, AT(state), .max = 255,
      .doc = "Directory for everything that stays; `SANDBOXER_STATE` overrides." },
    { "user", JSON_KIND_STR, AT(user), .max = 32,
      .doc = "Who root's daemon becomes for all that needs no privilege: a name or number." },
    { "host", JSON_KIND_STR, AT(host), .max = 253,
      .doc = "Host that sandboxes go to, whatever profiles prefer; `SANDBOXER_HOST` overrides." },
    { "hub", JSON_KIND_OBJECT, AT(hub), JSON_FIELDS(hub_fields) },
    { "log", JSON_KIND_OBJECT, AT(log), JSON_FIELDS(log_fields) },
    { "limits", JSON_KIND_OBJECT, AT(limits), JSON_FIELDS(limit_fields) },
    { "pool", JSON_KIND_OBJECT, AT(pool), JSON_FIELDS(pool_fields) },
    { "egress", JSON_KIND_OBJECT, AT(egress), JSON_FIELDS(egress_fields) },
    { "storage", JSON_KIND_OBJECT, AT(storage), JSON_FIELDS(storage_fields) },
    { "profiles", JSON_KIND_OBJECT, AT(profiles), JSON_FIELDS(profiles_fields) },
    { "workspaces", JSON_KIND_OBJECT, AT(workspaces), JSON_FIELDS(workspaces_fields) },
    { "ttl", JSON_KIND_OBJECT, AT(ttl), JSON_FIELDS(ttl_fields) },
    { "retention", JSON_KIND_OBJECT, AT(retention), JSON_FIELDS(retention_fields) },
    { "hosts", JSON_KIND_OBJECTS, AT(hosts), .max = CONFIG_HOSTS_MAX, JSON_FIELDS(host_fields),
      .item_size = sizeof(struct config_host), .doc = "Machines that sandboxes can be placed on." },
    { "images", JSON_KIND_OBJECT, AT(images), JSON_FIELDS(images_fields) },
    { "gateway", JSON_KIND_OBJECT, AT(gateway), JSON_FIELDS(gateway_fields) },
    { "secrets", JSON_KIND_OBJECT, AT(secrets), JSON_FIELDS(secrets_fields) },
    { "trust", JSON_KIND_OBJECT, AT(trust), JSON_FIELDS(trust_fields) },
    { "scan", JSON_KIND_OBJECT, AT(scan), JSON_FIELDS(scan_fields) },
};
const size_t config_field_count = COUNT_OF(config_fields);

bool config_serves_tenants(const struct config *c)
{
    return c->listen || c->domain.listen || (c->socket_mode & 077) || c->inherited_open;
}

int config_load(const char *path, struct config *ret, struct arena *a, struct err *e)
{
    struct sources s = { 0 };
    char user_file[PATH_MAX];

    if (path) {
        s.files[s.n++] = (struct source){ .path = path, .required = true };
    } else {
        s.files[s.n++] = (struct source){ .path = system_file, .foreign = geteuid() != 0 };
        if (paths_user_config(user_file, sizeof user_file, NULL) >= 0)
            s.files[s.n++] = (struct source){ .path = user_file };
    }
    return sources_load(&s, ret, a, e);
}
