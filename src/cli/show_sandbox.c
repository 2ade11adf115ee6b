/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show_sandbox.h"

#include "base/own.h"
#include "base/units.h"

/* A list of parts: each is shown with its name, if it is there. */
struct part {
    const char *name, *path;
    show_fn *show; /* NULL: show_text */
};

static void show_parts(const struct json *v, const struct part *parts, size_t n, int64_t now,
                       struct buf *out)
{
    bool first = true;

    for (size_t i = 0; i < n; i++) {
        const struct json *value = show_at(v, parts[i].path);

        if (!value)
            continue;
        buf_addf(out, "%s%s ", first ? "" : ", ", parts[i].name);
        (parts[i].show ? parts[i].show : show_text)(value, now, out);
        first = false;
    }
}

/* At most two decimals. */
static void show_processors(const struct json *v, int64_t now, struct buf *out)
{
    double n = v->type == JSON_DOUBLE ? v->d : (double)show_int(v, "", 0);

    buf_addf(out, "%.3g", (double)(int64_t)(n * 100 + 0.5) / 100);
}

void show_limits(const struct json *v, int64_t now, struct buf *out)
{
    static const struct part parts[] = {
        { "cpu", "cpu", show_processors },
        { "memory", "memory_bytes", show_bytes },
        { "disk", "disk_bytes", show_bytes },
        { "pids", "pids", NULL },
    };

    show_parts(v, parts, COUNT_OF(parts), now, out);
}

void show_usage(const struct json *v, int64_t now, struct buf *out)
{
    static const struct part parts[] = {
        { "cpu", "cpu", show_processors },
        { "memory", "memory_bytes", show_bytes },
        { "disk", "disk_bytes", show_bytes },
        { "processes", "processes", NULL },
    };

    show_parts(v, parts, COUNT_OF(parts), now, out);
}

void show_workspace(const struct json *v, int64_t now, struct buf *out)
{
    struct str repo = show_string(v, "inputs.repo"), access = show_string(v, "workspace.access");

    if (!repo.n)
        return;
    show_text(show_at(v, "workspace.path"), now, out);
    if (access.n)
        buf_addf(out, ", " STR_FMT, STR_ARG(access));
    buf_addf(out, ", %s " STR_FMT, str_eq(access, STR("ro")) ? "of" : "a copy of", STR_ARG(repo));
}

void show_mounts(const struct json *v, int64_t now, struct buf *out)
{
    const struct json *mounts = show_at(v, "mounts");
    const char *before = "";

    if (!mounts || mounts->type != JSON_ARRAY)
        return;
    for (const struct json *m = json_first(mounts); m != json_end(mounts); m++) {
        struct str access = show_string(m, "access");

        buf_add(out, str_from(before));
        show_text(show_at(m, "source"), now, out);
        buf_add(out, STR(" at "));
        show_text(show_at(m, "target"), now, out);
        buf_addf(out, ", %s", str_eq(access, STR("rw")) ? "rw" : "ro");
        before = "; ";
    }
}

static void add_count(struct buf *out, unsigned long long n, const char *noun)
{
    buf_addf(out, "%llu %s%s", n, noun, units_plural(n));
}

void show_egress(const struct json *v, int64_t now, struct buf *out)
{
    const struct json *egress = show_at(v, "egress");

    if (!egress) {
        buf_add(out, STR("none: it has no network"));
        return;
    }
    add_count(out, show_count(egress, "endpoints"), "destination");
    buf_add(out, STR("; "));
    add_count(out, show_count(egress, "allowed"), "connection");
    buf_addf(out, " allowed, %llu denied", show_count(egress, "denied"));
    if (!show_at(egress, "bytes_out"))
        return;
    buf_add(out, STR("; "));
    show_bytes(show_at(egress, "bytes_out"), now, out);
    buf_add(out, STR(" sent, "));
    show_bytes(show_at(egress, "bytes_in"), now, out);
    buf_add(out, STR(" received"));
}

void show_next_command(const struct json *v, int64_t now, struct buf *out)
{
    static const struct {
        const char *state, *verb, *rest;
    } next[] = {
        { "ready", "exec", " -- COMMAND" },
        { "active", "exec", " -- COMMAND" },
        { "paused", "resume", "" },
        { "requested", "wait --state ready", "" },
        { "provisioning", "wait --state ready", "" },
        { "failed", "events", "" },
    };
    struct str state = show_string(v, "state"), name = show_string(v, "name");

    if (!name.n)
        name = show_string(v, "sandbox_id");
    for (size_t i = 0; i < COUNT_OF(next); i++)
        if (str_eq(state, str_from(next[i].state)))
            buf_addf(out, "sandboxer %s " STR_FMT "%s", next[i].verb, STR_ARG(name), next[i].rest);
}

void show_name(const struct json *v, int64_t now, struct buf *out)
{
    struct str name = show_string(v, "name");

    buf_add(out, name.n ? name : show_string(v, "sandbox_id"));
}

void show_percent(const struct json *v, int64_t now, struct buf *out)
{
    if (!v)
        return;
    buf_addf(out, "%.1f%%", 100 * (v->type == JSON_DOUBLE ? v->d : (double)show_int(v, "", 0)));
}

/* "12M / 256M", or what is there of both. */
static void show_use_of_limit(const struct json *v, const char *use, const char *limit,
                              show_fn *show, int64_t now, struct buf *out)
{
    const struct json *used = show_at(v, use), *most = show_at(v, limit);

    if (!used && !most)
        return;
    if (used)
        show(used, now, out);
    else
        buf_add_c(out, '-');
    if (!most)
        return;
    buf_add(out, STR(" / "));
    show(most, now, out);
}

void show_memory_use(const struct json *v, int64_t now, struct buf *out)
{
    show_use_of_limit(v, "usage.memory_bytes", "limits.memory_bytes", show_bytes, now, out);
}

void show_disk_use(const struct json *v, int64_t now, struct buf *out)
{
    show_use_of_limit(v, "usage.disk_bytes", "limits.disk_bytes", show_bytes, now, out);
}

void show_process_use(const struct json *v, int64_t now, struct buf *out)
{
    show_use_of_limit(v, "usage.processes", "limits.pids", show_text, now, out);
}
