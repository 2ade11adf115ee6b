/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static void show_gib(const struct json *v, int64_t now, struct buf *out)
{
    if (show_count(v, ""))
        buf_addf(out, "%.1f GiB", (double)show_count(v, "") / (1 << 30));
}

/* "1.9 GiB free of 7.8 GiB" */
static void show_free(const struct json *host, const char *free, const char *all, struct buf *out)
{
    const struct json *v = show_at(host, free);

    if (!v)
        return;
    show_gib(v, 0, out);
    buf_add(out, STR(" free of "));
    show_gib(show_at(host, all), 0, out);
}

static void show_memory(const struct json *host, int64_t now, struct buf *out)
{
    show_free(host, "memory_free_bytes", "memory_bytes", out);
}

static void show_state_disk(const struct json *host, int64_t now, struct buf *out)
{
    show_free(host, "state_free_bytes", "state_bytes", out);
}

/* Of the last 1, 5 and 15 minutes. */
static void show_load(const struct json *v, int64_t now, struct buf *out)
{
    for (const struct json *n = v ? json_first(v) : NULL; v && n != json_end(v); n++)
        buf_addf(out, "%s%.2f", n == json_first(v) ? "" : ", ",
                 n->type == JSON_DOUBLE ? n->d : (double)show_int(n, "", 0));
}

static const struct column host_columns[] = {
    COLUMN("HOST", "hostname"),
    COLUMN("KERNEL", "kernel"),
    COLUMN("MACHINE", "machine"),
    COLUMN("UPTIME", "uptime_seconds", .show = show_seconds),
    COLUMN("CPUS", "cpus"),
    COLUMN("LOAD", "load", .show = show_load),
    COLUMN("MEMORY", "", .show = show_memory),
    COLUMN("PROCESSES", "processes"),
    COLUMN("DISK", "", .show = show_state_disk),
    COLUMN("STORAGE", "storage_driver"),
    COLUMN("STORAGE REASON", "storage_why"),
    COLUMN("STORAGE LIMITED", "storage_limited"),
    COLUMN("DISK OF AN OWNER", "storage_owner_bytes", .show = show_gib),
    COLUMN("SANDBOXES", "sandboxes"),
    COLUMN("PREPARED", "pool_ready"),
    COLUMN("VERSION", "version"),
};
static const struct answer_kind kind_telemetry = KIND("host", "host", host_columns);

const struct verb verb_inspect_host = {
    .name = "inspect host",
    .summary = "show the host's resources and their use",
    .text = "  sandboxer inspect host\n"
            "  sandboxer inspect host -o json | jq .memory_bytes\n",
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "GET", "/v1/inspect/host", .kind = &kind_telemetry),
};

const struct verb verb_inspect_stale = {
    .name = "inspect stale",
    .summary = "show leftovers of dead sandboxes",
    .text = "'sandboxer reap-stale --apply' removes it.\n"
            "\n"
            "  sandboxer inspect stale\n",
    REQUEST("GET", "/v1/inspect/stale", .kind = &kind_stale, .list = true),
};
