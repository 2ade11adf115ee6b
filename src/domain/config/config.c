/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/config.h"

#include <limits.h>
#include <unistd.h>

#include "base/clock.h"
#include "domain/config/paths.h"
#include "domain/config/sources.h"
#include "domain/model/role.h"
#include "domain/policy/egress_ceiling.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)

static const char system_file[] = "/etc/sandboxer/sandboxer.yaml";

/* Each list is in the order of its enum. */
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const formats[] = { "plain", "json", NULL };
const char *const config_trust_failures[] = { "static", "closed", "open", NULL };
const char *const config_trust_modes[] = { "bundle", "enforce", "audit", "off", NULL };

static const char *const config_overflows[] = { "deny", "drop_oldest", NULL };
const char *const config_drivers[] = { "auto", "memory", "plain", "reflink", "btrfs", NULL };
const char *const config_severities[] = { "info", "low", "medium", "high", "critical", NULL };

/* Objects are members of struct config, so their fields' offsets count from the member. */
#define FIELD(type, member, kind) #member, JSON_KIND_##kind, JSON_AT(type, member)
#define IN(object, member, kind)  FIELD(__typeof__(((struct config *)NULL)->object), member, kind)
#define AT(member, kind)          FIELD(struct config, member, kind)

static const struct json_field socket_fields[] = {
    { IN(socket, path, STR), .max = CONFIG_SOCKET_MAX,
      .doc = "Unix socket of the API; `SANDBOXER_SOCKET` overrides." },
    { IN(socket, mode, STR), .max = 4, .preset = "0600",
      .doc = "Permissions of the socket, as octal digits in quotes." },
    { IN(socket, group, STR), .max = 32, .doc = "Group that the socket belongs to." },
};

static const struct json_field hub_fields[] = {
    { IN(hub, url, STR), .max = 2048,
      .doc = "URL that lifecycle events are sent to; `SANDBOXER_HUB_URL` overrides." },
    { IN(hub, headers_file, STR), .max = 255,
      .doc = "File with HTTP headers to send, one per line, such as a bearer token; mode 0600, "
             "owned by the user who starts the daemon; read at the start and at SIGHUP." },
    { IN(hub, timeout, DURATION), .min = 100 * NS_PER_MS, .max = HOUR, .preset = "10s",
      .doc = "Timeout of one delivery." },
    { IN(hub, egress, BOOL), .preset = "false", .doc = "Whether denials of egress are sent, too." },
};

static const struct json_field log_fields[] = {
    { IN(log, level, ENUM), .names = levels, .preset = "info",
      .doc = "Minimum level of the lines that are logged." },
    { IN(log, format, ENUM), .names = formats, .preset = "plain",
      .doc = "Format of the log: plain text for people, or JSON." },
};

/* Like resources of profiles, which limit a single sandbox. */
static const struct json_field owner_limit_fields[] = {
    { IN(limits.owner, memory, BYTES), .min = 0, .max = INT64_C(1) << 50,
      .doc =
          "Memory, with files on the storage driver `memory`, that all sandboxes of one owner may "
          "use together; 0: half of the machine's. "
          "Administrators have no limits as owners." },
    { IN(limits.owner, pids, UINT), .min = 0, .max = 1 << 22, .preset = "0",
      .doc = "Processes and threads of all sandboxes of one owner; 0: a quarter of the machine's "
             "`pid_max`." },
    { IN(limits.owner, cpu, DOUBLE), .min = 0, .max = 1024, .preset = "0",
      .doc = "Processors of all sandboxes of one owner; 0: no limit. Owners always get equal "
             "shares of a busy machine." },
    { IN(limits.owner, io, BYTES), .min = 0, .max = INT64_C(1) << 50,
      .doc = "Bytes per second that they may read, and write, on the disk of the storage; 0: no "
             "limit. Needs cgroup v2." },
    { IN(limits.owner, disk, BYTES), .min = 0, .max = INT64_C(1) << 50,
      .doc = "Bytes of the disk that files of all sandboxes of one owner, with the layers captured "
             "from them, may use together; 0: a quarter of the disk that sandboxes write to, with "
             "the space that the btrfs image file can grow to. Needs the storage driver `btrfs` "
             "with quotas; the snapshots of one owner have at most as much with every driver." },
};

/* Administrators on the unix socket may ask for any amount. */
static const struct json_field sandbox_limit_fields[] = {
    { IN(limits.sandbox, memory, BYTES), .min = 0, .max = INT64_C(1) << 44,
      .doc = "Most memory that a request may ask for beyond that of its profile; 0: as much as any "
             "profile has. The same holds for the other amounts. Administrators on the unix socket "
             "may ask for more." },
    { IN(limits.sandbox, disk, BYTES), .min = 0, .max = INT64_C(1) << 46,
      .doc = "Most disk space that a request may ask for." },
    { IN(limits.sandbox, pids, UINT), .min = 0, .max = 1 << 22, .preset = "0",
      .doc = "Most processes and threads that a request may ask for." },
    { IN(limits.sandbox, cpu, DOUBLE), .min = 0, .max = 1024, .preset = "0",
      .doc = "Most processors that a request may ask for." },
};

static const struct json_field limit_fields[] = {
    { IN(limits, connections, UINT), .min = 1, .max = 100000, .preset = "4096",
      .doc = "Concurrent connections of authenticated callers, including streams and proxied "
             "ports; a sixteenth is reserved for administrators on the unix socket." },
    { IN(limits, connections_per_owner, UINT), .min = 0, .max = 100000, .preset = "0",
      .doc = "Of these, connections of one owner, seven eighths with one token; 0: a quarter." },
    { IN(limits, connections_unauthenticated, UINT), .min = 0, .max = 100000, .preset = "0",
      .doc = "Additional concurrent TCP connections that are not authenticated yet; half of them "
             "from one address; 0: an eighth of `limits.connections`." },
    { IN(limits, requests_in_flight, UINT), .min = 1, .max = 100000, .preset = "1024",
      .doc =
          "Concurrent requests; a sixteenth is reserved for administrators on the unix socket." },
    { IN(limits, requests_per_owner, UINT), .min = 0, .max = 100000, .preset = "0",
      .doc = "Of these, requests of one owner, seven eighths with one token; 0: a quarter." },
    { IN(limits, buffered_bytes, BYTES), .min = 1 << 20, .max = INT64_C(1) << 40, .preset = "256M",
      .doc = "Memory for bodies of requests and for answers that clients have not read yet; a "
             "sixteenth is reserved for administrators on the unix socket." },
    { IN(limits, buffered_bytes_per_owner, BYTES), .min = 0, .max = INT64_C(1) << 40,
      .doc = "Of this, memory of one owner, seven eighths with one token; 0: a quarter." },
    { IN(limits, body_bytes, BYTES), .min = 1024, .max = INT64_C(1) << 40, .preset = "8M",
      .doc = "Maximum body of a request with a file, a policy or a program's arguments, unless it "
             "is streamed; other request bodies are limited to 256 KiB." },
    { IN(limits, body_timeout, DURATION), .min = NS_PER_S, .max = HOUR, .preset = "60s",
      .doc = "Timeout for receiving a request body; a streamed one may take longer at an average "
             "of at least 1 KiB per second." },
    { IN(limits, link_checks, UINT), .min = 2, .max = 10000000, .preset = "50000",
      .doc = "Comparisons per second for signed links of E2B and Daytona; one address may use "
             "half. A link without a sandbox is compared with every sandbox." },
    { IN(limits, sandboxes_max, UINT), .min = 1, .max = 1000000, .preset = "1000",
      .doc = "Concurrent sandboxes, including prepared ones; a sixteenth is reserved for "
             "administrators on the unix socket." },
    { IN(limits, sandboxes_per_owner, UINT), .min = 0, .max = 1000000, .preset = "0",
      .doc = "Of these, sandboxes of one owner, seven eighths with one token; 0: a quarter." },
    { IN(limits, processes_per_owner, UINT), .min = 1, .max = 1000000, .preset = "8192",
      .doc =
          "Background processes of one owner, seven eighths with one token, running or kept with "
          "their output; 256 of one sandbox." },
    { IN(limits, output_per_sandbox, BYTES), .min = 64 << 10, .max = INT64_C(1) << 40,
      .preset = "64M",
      .doc = "Stored output of background processes of one sandbox; beyond it each process keeps "
             "less, and output of ended processes is dropped." },
    { IN(limits, output_per_owner, BYTES), .min = 64 << 10, .max = INT64_C(1) << 40, .preset = "1G",
      .doc = "The same for all sandboxes of one owner, seven eighths with one token; a background "
             "process needs 64 KiB of it to start." },
    { IN(limits, snapshot_bytes_per_owner, BYTES), .min = 1 << 20, .max = INT64_C(1) << 50,
      .preset = "64G",
      .doc = "Snapshots of one owner on disk, seven eighths with one token, imported ones "
             "included." },
    { IN(limits, events_keep, UINT), .min = 1000, .max = 1000000000, .preset = "1000000",
      .doc = "Maximum number of stored events; the oldest are deleted first." },
    { IN(limits, events_per_owner, UINT), .min = 0, .max = 1000000000, .preset = "0",
      .doc = "Events that one owner may cause per day, seven eighths with one token, half of them "
             "at once; beyond it, requests that start something are refused, while destroy works. "
             "0: a quarter of `events_keep`." },
    { IN(limits, egress_logs_per_owner, BYTES), .min = 0, .max = INT64_C(1) << 50,
      .doc = "Egress logs of one owner's sandboxes, seven eighths with one token, including those "
             "of ended sandboxes until they expire (`egress.audit_keep`); beyond it, "
             "`egress.audit_overflow` applies. 0: a sixteenth of the file system, at least 256M." },
    { IN(limits, upload_bytes_per_owner, BYTES), .min = 1 << 20, .max = INT64_C(1) << 50,
      .preset = "8G",
      .doc = "Uploaded files of one owner, seven eighths with one token, for templates that are "
             "not built yet, and snapshot files that are being imported, or exported until the "
             "client has received them." },
    { IN(limits, workspace_copies, UINT), .min = 1, .max = CONFIG_COPIES_MAX, .preset = "64",
      .doc = "Concurrent copies of workspaces, in or out; further copies wait. A sixteenth is "
             "reserved for administrators on the unix socket." },
    { IN(limits, workspace_copies_per_owner, UINT), .min = 0, .max = CONFIG_COPIES_MAX,
      .preset = "0",
      .doc = "Of these, copies of one owner, seven eighths with one token; 0: a quarter. 16 times "
             "as many may wait; those at the end of a sandbox always do." },
    { IN(limits, owner, OBJECT), JSON_FIELDS(owner_limit_fields) },
    { IN(limits, sandbox, OBJECT), JSON_FIELDS(sandbox_limit_fields) },
};

static const struct json_field pool_fields[] = {
    { IN(pool, enabled, BOOL), .preset = "true",
      .doc = "Whether sandboxes are prepared in advance, as configured in profiles." },
    { IN(pool, total_max, UINT), .min = 0, .max = 1000000, .preset = "16",
      .doc = "Maximum number of prepared sandboxes of all profiles." },
};

static const struct json_field egress_fields[] = {
    { IN(egress, workers, UINT), .min = 0, .max = 256, .preset = "0",
      .doc = "Number of egress workers; 0: number of processors." },
    { IN(egress, audit_max, BYTES), .min = 64 << 10, .max = INT64_C(1) << 40, .preset = "128M",
      .doc = "Maximum egress log of one sandbox. When it is full, all connections of the sandbox "
             "are denied (`audit_full`) until records expire, or the daemon is restarted with a "
             "larger limit." },
    { IN(egress, audit_keep, DURATION), .min = 60 * NS_PER_S, .max = 3650 * DAY, .preset = "7d",
      .doc = "Retention time of egress logs, also after the end of their sandbox; its record is "
             "kept as long." },
    { IN(egress, audit_overflow, ENUM), .names = config_overflows, .preset = "deny",
      .doc = "When the logs of an owner reach `limits.egress_logs_per_owner`: `deny` its egress "
             "(`audit_full`), or `drop_oldest`: delete logs of its ended sandboxes early, each "
             "with an event (`audit.dropped`)." },
    { IN(egress, resolvers, STRS), .max = CONFIG_RESOLVERS_MAX,
      .doc = "DNS servers for names that sandboxes may reach, as `ADDRESS` or `ADDRESS:PORT`; "
             "default: the system's." },
    { IN(egress, upstream, STR), .max = 255,
      .doc = "Upstream proxy for all allowed connections: `http://ADDRESS:PORT` or "
             "`socks5://ADDRESS:PORT`." },
    { IN(egress, most, ENUM), .names = egress_reach_names, .preset = "public",
      .doc = "Ceiling of the destinations that a caller without administrator rights may allow "
             "(`docs/egress-policy.md`, \"Ceilings\")." },
    { IN(egress, local, STRS), .max = CONFIG_PLACES_MAX,
      .doc = "Addresses that are not public and that every caller may allow, as "
             "`ADDRESS[/BITS]:PORT[,PORT…]`, `[ADDRESS6[/BITS]]:PORT`; `*` means every port." },
    { IN(egress, names, STRS), .max = CONFIG_PLACES_MAX,
      .doc = "Names at addresses that are not public, for every caller, as "
             "`NAME[:PORT[,PORT…]]=ADDRESS[/BITS][,…]`; default port: 443. Policies and package "
             "managers that use the name reach it at these addresses (`docs/egress-policy.md`, "
             "\"Addresses\")." },
    { IN(egress, listed, STRS), .max = CONFIG_PLACES_MAX,
      .doc = "Destinations that `most: listed` allows, as `HOST[:PORT[,PORT…]]` or "
             "`ADDRESS/BITS[:PORT]`; default port: 443." },
};

static const struct json_field storage_fields[] = {
    { IN(storage, driver, ENUM), .names = config_drivers, .preset = "auto",
      .doc = "Storage driver for the files of sandboxes; `auto`: the best that the state directory "
             "supports (`docs/snapshots.md`)." },
    { IN(storage, size, BYTES), .max = INT64_C(1) << 50,
      .doc = "Maximum size of the btrfs image file, which is used if the state directory is on "
             "another file system; at least 256M; 0: limited by `images.free_min` only." },
    { IN(storage, measure_after, DURATION), .min = 0, .max = DAY, .preset = "15s",
      .doc =
          "Delay from the capture of a layer to its digest, which is computed in the background." },
};

static const struct json_field profiles_fields[] = {
    { IN(profiles, dirs, STRS), .max = 16,
      .doc = "Additional directories of profiles; they take precedence over the default ones." },
};

static const struct json_field workspaces_fields[] = {
    { IN(workspaces, roots, STRS), .max = 16,
      .doc = "Directories below which API requests may name workspaces, opened with the rights of "
             "the caller; empty by default for root's daemon. The sandboxer command opens "
             "directories itself and needs no entry." },
    { IN(workspaces, patience, DURATION), .min = NS_PER_S, .max = 24 * 3600 * NS_PER_S,
      .preset = "2m",
      .doc =
          "Time without progress after which a copy is aborted, because its file system hangs." },
};

static const struct json_field ttl_fields[] = {
    { IN(ttl, max, DURATION), .min = NS_PER_S, .max = 30 * DAY, .preset = "7d",
      .doc = "Maximum lifetime of any sandbox, of every profile." },
    { IN(ttl, grace, DURATION), .min = 0, .max = HOUR, .preset = "10s",
      .doc = "Time between SIGTERM and SIGKILL for the programs of an expired sandbox." },
    { IN(ttl, paused, DURATION), .min = 60 * NS_PER_S, .max = 3650 * DAY, .preset = "7d",
      .doc = "Time after which a paused sandbox expires." },
};

static const struct json_field retention_fields[] = {
    { IN(retention, sandboxes, DURATION), .min = DAY, .max = 3650 * DAY, .preset = "7d",
      .doc = "Retention time of finished sandboxes; at least a day, because limits of peers count "
             "a day." },
    { IN(retention, events, DURATION), .min = 60 * NS_PER_S, .max = 3650 * DAY, .preset = "30d",
      .doc = "Retention time of events." },
    { IN(retention, unsynced, DURATION), .min = NS_PER_S, .max = 3650 * DAY, .preset = "7d",
      .doc = "Retention time of a snapshot of changes that could not be copied back to the "
             "workspace when its sandbox was destroyed." },
};

static const struct json_field host_fields[] = {
    { FIELD(struct config_host, name, STR), .max = 253, .required = true,
      .doc = "Name of the host in profiles and requests; `local` is this machine." },
    { FIELD(struct config_host, address, STR), .max = 255, .required = true,
      .doc = "Destination for ssh: `build1`, `user@build1`." },
    { FIELD(struct config_host, labels, MAP), .max = 32,
      .doc = "Labels of the host, for placement." },
};

#define REGISTRY(member, kind) FIELD(struct config_registry, member, kind)
static const struct json_field registry_fields[] = {
    { REGISTRY(host, STR), .max = 260, .required = true,
      .doc = "Host of the registry as in references, with the port if they have one." },
    { REGISTRY(http, BOOL),
      .doc = "Whether to use HTTP without TLS; other registries always use TLS." },
    { REGISTRY(addresses, STRS), .max = CONFIG_ADDRESSES_MAX,
      .doc = "Addresses of the registry that are not public." },
    { REGISTRY(creds_file, STR), .max = 255,
      .doc = "File with `USER:PASSWORD`, readable by the daemon's user only." },
    { REGISTRY(ca_file, STR), .max = 255,
      .doc = "CA certificates for the registry, instead of the system's." },
};

static const struct json_field images_fields[] = {
    { IN(images, registry, STR), .max = 260,
      .doc = "Registry of references without a host; default: none." },
    { IN(images, registries, OBJECTS), .max = CONFIG_REGISTRIES_MAX, JSON_FIELDS(registry_fields),
      .item_size = sizeof(struct config_registry),
      .doc = "Registries that are not public, use no TLS, or require a password." },
    { IN(images, max_bytes, BYTES), .min = 1 << 20, .max = INT64_C(1) << 50, .preset = "32G",
      .doc = "Maximum size of an image, compressed or unpacked." },
    { IN(images, free_min, BYTES), .min = 0, .max = INT64_C(1) << 50, .preset = "1G",
      .doc = "Disk space that images, snapshots, uploads and copies leave free; output of "
             "processes leaves the same, or a twentieth of a smaller disk." },
};

static const struct json_field gateway_fields[] = {
    { IN(gateway, trust, ENUM), .names = role_names, .preset = "apprentice",
      .doc = "Highest role that a gateway (`token create --gateway`) can assert for a caller." },
};

static const struct json_field secrets_fields[] = {
    { IN(secrets, key_file, STR), .max = 255,
      .doc = "File with the keys that seal secrets in the store; default: secrets/key in the state "
             "directory." },
};

static const struct json_field trust_fields[] = {
    { IN(trust, bundle, STR), .max = 255,
      .doc =
          "Policy file (bundle) that defines who may call which tool; default: the built-in one." },
    { IN(trust, mode, ENUM), .names = config_trust_modes, .preset = "bundle",
      .doc = "Overrides the bundle's mode; `bundle`: use the bundle's." },
    { IN(trust, failure, ENUM), .names = config_trust_failures, .preset = "static",
      .doc = "Behaviour if the bundle cannot be read at the start: use the built-in one, deny "
             "everything, or allow everything." },
    { IN(trust, role, ENUM), .names = role_names, .preset = "journeyman",
      .doc = "Role of sessions that users of the unix socket start." },
    { IN(trust, masters, STRS), .max = 64,
      .doc = "UIDs of users who may approve requests, in addition to administrators." },
    { IN(trust, self_approval, BOOL), .preset = "false",
      .doc = "Whether the user who runs the daemon may approve and reject their own requests on a "
             "terminal (`approvals watch`, `approvals approve --self`). A guard against mistakes, "
             "not against programs of that user; refused if others can reach the daemon "
             "(`docs/trust.md`)." },
    { IN(trust, silence, DURATION), .min = NS_PER_S, .max = 7 * DAY, .preset = "10m",
      .doc = "Time without a message after which a session ends." },
    { IN(trust, grace, DURATION), .min = 0, .max = HOUR, .preset = "30s",
      .doc = "Time that a session waits for its client to reconnect." },
};

static const struct json_field step_mcp_fields[] = {
    { FIELD(__typeof__(((struct config_step *)NULL)->mcp), command, STRS), .max = CONFIG_WORDS_MAX,
      .doc = "Program and arguments of an MCP server on stdio." },
    { FIELD(__typeof__(((struct config_step *)NULL)->mcp), url, STR), .max = 2048,
      .doc = "URL of an MCP server over HTTP, instead of a command." },
    { FIELD(__typeof__(((struct config_step *)NULL)->mcp), tool, STR), .max = 128,
      .doc = "Tool to call; default: the name of the step." },
};

static const struct json_field step_fields[] = {
    { FIELD(struct config_step, command, STRS), .max = CONFIG_WORDS_MAX,
      .doc = "Program and arguments that replace the built-in step." },
    { FIELD(struct config_step, mcp, OBJECT), JSON_FIELDS(step_mcp_fields) },
};

static const struct json_field scan_fields[] = {
    { IN(scan, block, ENUM), .names = config_severities, .preset = "high",
      .doc = "Minimum severity of a finding that blocks an untrusted program." },
    { IN(scan, timeout, DURATION), .min = 100 * NS_PER_MS, .max = HOUR, .preset = "1m",
      .doc = "Timeout of an external step." },
    { IN(scan, preflight, OBJECT), JSON_FIELDS(step_fields) },
    { IN(scan, postflight, OBJECT), JSON_FIELDS(step_fields) },
};

static const struct json_field domain_fields[] = {
    { IN(domain, name, STR), .min = 1, .max = 200,
      .doc = "Domain of the previews of sandboxes' ports: `8080-ID.NAME`." },
    { IN(domain, listen, STR), .max = 64,
      .doc = "Address and port for HTTPS, such as `127.0.0.1:8443`; default: no HTTPS." },
    { IN(domain, certificate, STR), .min = 1, .max = 4095,
      .doc = "File (PEM) with the certificate for `*.NAME` and its chain; default: a certificate "
             "issued by the daemon's own authority." },
    { IN(domain, key, STR), .min = 1, .max = 4095,
      .doc = "File (PEM) with the key of the certificate, without a passphrase." },
    { IN(domain, renew, DURATION), .min = NS_PER_S, .max = 30 * DAY, .preset = "1d",
      .doc =
          "Interval at which certificate and key are read again, or issued anew; also at SIGHUP." },
    { IN(domain, public_suffix, BOOL), .preset = "false",
      .doc =
          "The domain is on the Public Suffix List, so browsers keep cookies of its names apart: "
          "cookies of previews keep their names." },
};

const struct json_field config_fields[] = {
    { AT(listen, STR), .max = 64,
      .doc = "Address and port for TCP, such as `127.0.0.1:7700`; default: no TCP." },
    { AT(listen_unencrypted, BOOL), .preset = "false",
      .doc = "Accept a `listen` address that other machines can reach, although tokens are sent "
             "unencrypted." },
    { AT(domain, OBJECT), JSON_FIELDS(domain_fields) },
    { AT(socket, OBJECT), JSON_FIELDS(socket_fields) },
    { AT(state, STR), .max = 255,
      .doc = "Directory for persistent data; `SANDBOXER_STATE` overrides." },
    { AT(user, STR), .max = 32,
      .doc = "User that root's daemon switches to for everything that needs no privileges: a name "
             "or number." },
    { AT(host, STR), .max = 253,
      .doc = "Host that sandboxes are placed on, regardless of profiles; `SANDBOXER_HOST` "
             "overrides." },
    { AT(hub, OBJECT), JSON_FIELDS(hub_fields) },
    { AT(log, OBJECT), JSON_FIELDS(log_fields) },
    { AT(limits, OBJECT), JSON_FIELDS(limit_fields) },
    { AT(pool, OBJECT), JSON_FIELDS(pool_fields) },
    { AT(egress, OBJECT), JSON_FIELDS(egress_fields) },
    { AT(storage, OBJECT), JSON_FIELDS(storage_fields) },
    { AT(profiles, OBJECT), JSON_FIELDS(profiles_fields) },
    { AT(workspaces, OBJECT), JSON_FIELDS(workspaces_fields) },
    { AT(ttl, OBJECT), JSON_FIELDS(ttl_fields) },
    { AT(retention, OBJECT), JSON_FIELDS(retention_fields) },
    { AT(idle_exit, DURATION), .max = 3650 * DAY, .preset = "10m",
      .doc = "A daemon that the command line started ends after this time without sandboxes and "
             "clients; 0: it stays." },
    { AT(hosts, OBJECTS), .max = CONFIG_HOSTS_MAX, JSON_FIELDS(host_fields),
      .item_size = sizeof(struct config_host), .doc = "Machines that sandboxes can be placed on." },
    { AT(images, OBJECT), JSON_FIELDS(images_fields) },
    { AT(gateway, OBJECT), JSON_FIELDS(gateway_fields) },
    { AT(secrets, OBJECT), JSON_FIELDS(secrets_fields) },
    { AT(trust, OBJECT), JSON_FIELDS(trust_fields) },
    { AT(scan, OBJECT), JSON_FIELDS(scan_fields) },
};
const size_t config_field_count = COUNT_OF(config_fields);

const struct config_file_field config_files[CONFIG_FILES] = {
    { "hub.headers_file", offsetof(struct config, hub.headers_file), false },
    { "secrets.key_file", offsetof(struct config, secrets.key_file), false },
    { "trust.bundle", offsetof(struct config, trust.bundle), true },
};

bool config_serves_tenants(const struct config *c)
{
    return c->listen || c->domain.listen || (c->socket_mode & 077) || c->inherited_open;
}

void sources_choose(const char *path, struct sources *ret)
{
    static char user_file[PATH_MAX];

    *ret = (struct sources){ 0 };
    if (path) {
        ret->files[ret->n++] = (struct config_source){ .path = path, .required = true };
        return;
    }
    ret->files[ret->n++] = (struct config_source){ .path = system_file, .foreign = geteuid() != 0 };
    if (paths_user_config(user_file, sizeof user_file, NULL) >= 0)
        ret->files[ret->n++] = (struct config_source){ .path = user_file };
}

int config_load(const char *path, struct config *ret, struct arena *a, struct err *e)
{
    struct sources s;

    sources_choose(path, &s);
    return sources_load(&s, ret, a, e);
}
