/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/box_options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/units.h"
#include "engine/runtime/launch.h"
#include "lib/proc/caps.h"

int box_set_memory(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;

    o->asked |= LAUNCH_NO_MEMORY;
    return units_bytes(str_from(value), "--memory", &o->memory, e);
}

int box_set_disk(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;

    o->asked |= LAUNCH_NO_DISK;
    return units_bytes(str_from(value), "--disk", &o->disk, e);
}

int box_set_pids(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;

    o->asked |= LAUNCH_NO_PIDS;
    return units_count(str_from(value), "--pids", 2, PLAN_PIDS_MAX, &o->pids, e);
}

int box_set_cpu(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;

    o->asked |= LAUNCH_NO_CPU;
    return units_milli(str_from(value), "--cpu", &o->cpu_milli, e);
}

/* SRC:DST, SRC:DST:ro or SRC:DST:rw. SRC may hold colons if DST and mode are given behind it. */
static int read_mount(const char *text, struct box_mount *ret, struct err *e)
{
    struct str rest = str_from(text);
    size_t colon;

    ret->writable = str_ends(rest, STR(":rw"));
    if (ret->writable || str_ends(rest, STR(":ro")))
        rest.n -= 3;
    for (colon = rest.n; colon > 0 && rest.p[colon - 1] != ':'; colon--)
        ;
    if (colon < 2 ||
        !str_copy((struct str){ rest.p + colon, rest.n - colon }, ret->target, sizeof ret->target))
        return err_set(e, ERR_INVALID,
                       "--mount: '%s' is not SOURCE:TARGET, SOURCE:TARGET:ro or "
                       "SOURCE:TARGET:rw",
                       text);
    if (ret->target[0] != '/')
        return err_set(e, ERR_INVALID,
                       "--mount: '%s': the target '%s' is not an absolute path; write "
                       "SOURCE:TARGET, SOURCE:TARGET:ro or SOURCE:TARGET:rw",
                       text, ret->target);
    if (!ret->target[1])
        return err_set(e, ERR_INVALID,
                       "--mount: '%s': the target '/' is the sandbox's own root; mount below it, "
                       "or use --image DIR for another root",
                       text);
    ret->source = new0(colon);
    memcpy(ret->source, rest.p, colon - 1);
    return 0;
}

int box_set_mount(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;
    struct box_mount *m = &o->mounts[o->n_mounts];
    int r;

    if (o->n_mounts == PLAN_MOUNTS_MAX)
        return err_set(e, ERR_TOO_BIG, "--mount: more than %d mounts", PLAN_MOUNTS_MAX);
    r = read_mount(value, m, e);
    if (r >= 0)
        r = err_wrap(e, plan_check_target(m->target, e), "--mount %s", value);
    if (r >= 0)
        o->n_mounts++;
    return r;
}

int box_set_workdir(void *box, const char *value, struct err *e)
{
    if (value[0] != '/')
        return err_set(e, ERR_INVALID, "--workdir: '%s' is not an absolute path", value);
    ((struct box_options *)box)->workdir = value;
    return 0;
}

int box_set_user(void *box, const char *value, struct err *e)
{
    struct box_options *o = box;

    o->user_text = value;
    return err_wrap(e, user_parse(value, &o->user, e), "--user");
}

int box_set_hostname(void *box, const char *value, struct err *e)
{
    if (!value[0] || strlen(value) >= sizeof((struct plan *)0)->hostname)
        return err_set(e, ERR_INVALID, "--hostname: '%s' must have 1 to %zu bytes", value,
                       sizeof((struct plan *)0)->hostname - 1);
    ((struct box_options *)box)->hostname = value;
    return 0;
}

int box_set_cap(void *box, const char *value, struct err *e)
{
    int cap;

    if (!caps_from_name(str_from(value), &cap) || !(plan_grantable_caps() & CAP_BIT(cap)))
        return err_set(
            e, ERR_INVALID,
            "--cap: '%s' cannot be granted; CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, "
            "SETGID and KILL can",
            value);
    ((struct box_options *)box)->caps |= CAP_BIT(cap);
    return 0;
}

int box_options_hand_over(const struct box_options *o, struct api_call *c, struct json_objects *ret,
                          struct arena *a)
{
    struct request_mount *all = arena_array(a, o->n_mounts + 1, sizeof *all);

    *ret = (struct json_objects){ all, 0 };
    if (!all)
        return verb_failed(c->verb, "--mount: out of memory");
    for (size_t i = 0; i < o->n_mounts; i++) {
        const struct box_mount *m = &o->mounts[i];
        char path[PATH_MAX];
        int status = api_call_pass_mount(c, m->source, m->target, m->writable);

        if (status)
            return status;
        all[ret->n++] = (struct request_mount){
            .source = arena_dup(a, str_from(realpath(m->source, path) ? path : m->source)),
            .target = m->target,
            .access = m->writable ? MOUNT_ACCESS_RW : MOUNT_ACCESS_RO,
        };
    }
    return 0;
}

/* Rounded up: a request has whole MiB. */
static uint32_t to_mib(uint64_t bytes)
{
    uint64_t mib = (bytes + (1 << 20) - 1) >> 20;

    return mib < UINT32_MAX ? (uint32_t)mib : UINT32_MAX;
}

static struct json_strs name_caps(uint64_t caps)
{
    static const char *names[64];
    size_t n = 0;

    for (int cap = 0; cap < 64; cap++)
        if (caps & CAP_BIT(cap))
            names[n++] = caps_name(cap);
    return (struct json_strs){ names, n };
}

struct request_settings box_options_settings(const struct box_options *o)
{
    struct request_settings ret = { .resources_given = o->asked,
                                    .caps_given = o->caps,
                                    .caps = name_caps(o->caps),
                                    .user = o->user_text,
                                    .workdir = o->workdir,
                                    .hostname = o->hostname };

    if (o->asked & LAUNCH_NO_CPU)
        ret.resources.cpu = o->cpu_milli / 1000.0;
    if (o->asked & LAUNCH_NO_MEMORY)
        ret.resources.memory_mb = to_mib(o->memory);
    if (o->asked & LAUNCH_NO_PIDS)
        ret.resources.pids = (uint32_t)o->pids;
    if (o->asked & LAUNCH_NO_DISK)
        ret.resources.disk_mb = to_mib(o->disk);
    return ret;
}
