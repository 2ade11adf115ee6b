/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/token_terms.h"

#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "control/egress/reach.h"

static const char *const accesses[] = { "ro", "rw", NULL };

/* SDKs create sandboxes by the thousand and expect internet access; agents have the limits of their
 * role. */
#define LIMITS(hour, day, at_once, calls_)                                                         \
    .per_hour = (hour), .per_day = (day), .concurrent = (at_once), .calls = (calls_)
#define PUBLIC .network = { TOKEN_PUBLIC, sizeof TOKEN_PUBLIC - 1 }

static const struct token_terms presets[] = {
    { .preset = "agent", LIMITS(TOKEN_UNSET, TOKEN_UNSET, TOKEN_UNSET, TOKEN_UNSET) },
    { .preset = "ci", LIMITS(1000, 50000, 50, 6000) },
    { .preset = "e2b", LIMITS(10000, 1000000, 2000, 60000), PUBLIC },
    { .preset = "daytona", LIMITS(10000, 1000000, 2000, 60000), PUBLIC },
};

#define AT(member)   JSON_AT(struct terms_request, member)
#define SEEN(member) .seen = offsetof(struct terms_request, member)

const struct json_field terms_limit_fields[TERMS_LIMIT_FIELDS] = {
    { "sandboxes_per_hour", JSON_KIND_INT, AT(limits.per_hour), SEEN(limits.per_hour_given),
      .max = 1000000, .doc = "Sandboxes created per hour, instead of the role's limit." },
    { "minutes_per_day", JSON_KIND_INT, AT(limits.per_day), SEEN(limits.per_day_given),
      .max = 10000000, .doc = "Total minutes of its sandboxes per day." },
    { "concurrent", JSON_KIND_INT, AT(limits.concurrent), SEEN(limits.concurrent_given),
      .max = 1000000, .doc = "Sandboxes at the same time." },
    { "calls_per_minute", JSON_KIND_INT, AT(limits.calls), SEEN(limits.calls_given), .min = 1,
      .max = 1000000, .doc = "Calls of each tool per minute, instead of the tool's rate." },
};

const struct json_field terms_capability_fields[TERMS_CAPABILITY_FIELDS] = {
    { "network", JSON_KIND_ANY, AT(capabilities.network), .types = "boolean string array",
      .doc = "Network that its sandboxes reach without approval: false, \"public\", or a list of "
             "HOST[:PORT], where *.HOST covers all subdomains." },
    { "filesystem", JSON_KIND_ENUM, AT(capabilities.filesystem),
      SEEN(capabilities.filesystem_given), .names = accesses,
      .doc = "Workspace access of its sandboxes without approval: ro or rw." },
    { "duration_s", JSON_KIND_INT, AT(capabilities.duration_s), .min = 1, .max = 31536000,
      .doc = "Lifetime of its sandboxes without approval, in seconds." },
    { "memory_mb", JSON_KIND_INT, AT(capabilities.memory_mb), .min = 1, .max = 1 << 20,
      .doc = "Memory of its sandboxes without approval, in MiB." },
    { "cpu_quota", JSON_KIND_DOUBLE, AT(capabilities.cpu_quota),
      .doc = "Processors of its sandboxes without approval." },
};

static bool find_preset(const char *name, struct token_terms *ret)
{
    for (size_t i = 0; i < COUNT_OF(presets); i++)
        if (strcmp(presets[i].preset, name) == 0) {
            *ret = presets[i];
            return true;
        }
    return false;
}

static int read_network_list(const struct json *v, struct arena *a, struct str *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TOKEN_NETWORK_MAX);
    int r = 0;

    for (const struct json *m = json_first(v); r >= 0 && m != json_end(v); m++)
        if (m->type != JSON_STR || !m->s.n || memchr(m->s.p, ' ', m->s.n))
            r = err_set(e, ERR_INVALID, "capabilities.network: must be a list of HOST[:PORT]");
        else if (buf_addf(&text, "%s" STR_FMT, text.n ? " " : "", STR_ARG(m->s)) < 0)
            r = err_set(e, ERR_TOO_BIG, "capabilities.network: more than %d bytes",
                        TOKEN_NETWORK_MAX);
    if (r < 0)
        return r;
    ret->p = arena_dup(a, buf_str(&text));
    ret->n = text.n;
    if (!ret->p)
        return err_set(e, ERR_TOO_BIG,
                       "capabilities.network: needs more memory than the %zu bytes of a request",
                       a->max);
    return err_wrap(e, approval_check(*ret, e), "capabilities");
}

static int read_network(const struct json *v, struct arena *a, struct str *ret, struct err *e)
{
    if (!v || v->type == JSON_NULL)
        return 0;
    if (v->type == JSON_ARRAY)
        return read_network_list(v, a, ret, e);
    if (v->type == JSON_STR && str_eq(v->s, STR(TOKEN_PUBLIC)))
        *ret = STR(TOKEN_PUBLIC);
    else if (v->type == JSON_BOOL && !v->b)
        *ret = STR("");
    else
        return err_set(e, ERR_INVALID,
                       "capabilities.network: must be false, \"public\" or a list of HOST[:PORT]");
    return 0;
}

int terms_read(const struct terms_request *q, struct arena *a, struct token_terms *ret,
               struct err *e)
{
    struct token_terms t = TOKEN_TERMS_NONE;
    int r;

    if (q->preset && !find_preset(q->preset, &t))
        return err_set(e, ERR_INVALID,
                       "preset: there is no '%.20s'; there are agent, ci, e2b and daytona",
                       q->preset);
    if (q->limits.per_hour_given)
        t.per_hour = q->limits.per_hour;
    if (q->limits.per_day_given)
        t.per_day = q->limits.per_day;
    if (q->limits.concurrent_given)
        t.concurrent = q->limits.concurrent;
    if (q->limits.calls_given)
        t.calls = q->limits.calls;
    if (q->capabilities.filesystem_given)
        t.filesystem = q->capabilities.filesystem ? TOKEN_FILES_RW : TOKEN_FILES_RO;
    t.duration_s = q->capabilities.duration_s;
    t.memory_mb = q->capabilities.memory_mb;
    if (q->capabilities.cpu_quota < 0 || q->capabilities.cpu_quota > 1024)
        return err_set(e, ERR_INVALID, "capabilities.cpu_quota: must be 0 to 1024");
    t.cpu_milli = (int64_t)(q->capabilities.cpu_quota * 1000);
    r = read_network(q->capabilities.network, a, &t.network, e);
    if (r >= 0)
        *ret = t;
    return r;
}

/* --- limits of the maker --- */

struct terms_ceiling {
    const char *name;
    int64_t *value;
    bool asked; /* given in the request, not by a preset */
    int64_t most;
};

/* Applies a ceiling. `none` is the value of "no limit": TOKEN_UNSET for limits, 0 for
 * capabilities. */
static int apply_terms_ceiling(const struct terms_ceiling *c, int64_t none, struct err *e)
{
    if (c->most == none)
        return 0;
    if (c->asked && *c->value > c->most)
        return err_set(e, ERR_DENIED, "%s: a token cannot make a token with more than its own %lld",
                       c->name, (long long)c->most);
    if (*c->value == none || *c->value > c->most)
        *c->value = c->most;
    return 0;
}

static int64_t maker_limit(int64_t own, bool given, int64_t of_role)
{
    return own != TOKEN_UNSET ? own : given ? of_role : TOKEN_UNSET;
}

static bool network_lists_host(struct str list, struct str word)
{
    struct str one;

    while (list.n) {
        list = str_cut(list, ' ', &one);
        if (str_eq(one, word))
            return true;
    }
    return false;
}

static bool is_network_within(struct str asked, struct str most)
{
    struct str word;

    if (!asked.n || str_eq(most, STR(TOKEN_PUBLIC)))
        return true;
    if (str_eq(asked, STR(TOKEN_PUBLIC)))
        return false;
    while (asked.n) {
        asked = str_cut(asked, ' ', &word);
        if (!network_lists_host(most, word))
            return false;
    }
    return true;
}

/* Applies the maker's network. New lists contain only public addresses; those stored by older
 * versions may not. */
static int apply_network_ceiling(bool asked, struct str most, struct token_terms *t, struct err *e)
{
    if (is_network_within(t->network, most))
        return 0;
    if (asked)
        return err_set(
            e, ERR_DENIED,
            "capabilities.network: a token cannot make a token that reaches more than its own "
            "ceiling, '" STR_FMT "'",
            STR_ARG(most.n ? most : STR("false")));
    t->network = most;
    return 0;
}

int terms_limit(const struct terms_request *q, const struct token_terms *maker,
                const struct trust_limits *role, struct token_terms *t, struct err *e)
{
    const struct terms_ceiling limits[] = {
        { "limits.sandboxes_per_hour", &t->per_hour, q->limits.per_hour_given,
          maker_limit(maker->per_hour, role->per_hour_given, role->sandboxes_per_hour) },
        { "limits.minutes_per_day", &t->per_day, q->limits.per_day_given,
          maker_limit(maker->per_day, role->per_day_given, role->minutes_per_day) },
        { "limits.concurrent", &t->concurrent, q->limits.concurrent_given,
          maker_limit(maker->concurrent, role->concurrent_given, role->concurrent) },
        { "limits.calls_per_minute", &t->calls, q->limits.calls_given, maker->calls },
    };
    const struct terms_ceiling capabilities[] = {
        { "capabilities.duration_s", &t->duration_s, t->duration_s, maker->duration_s },
        { "capabilities.memory_mb", &t->memory_mb, t->memory_mb, maker->memory_mb },
        { "capabilities.cpu_quota", &t->cpu_milli, t->cpu_milli, maker->cpu_milli },
    };
    int r = 0;

    if (maker->calls == TOKEN_UNSET && q->limits.calls_given)
        return err_set(e, ERR_DENIED,
                       "limits.calls_per_minute: the maker's token has the tools' own rates");
    if (maker->calls == TOKEN_UNSET)
        t->calls = TOKEN_UNSET;
    for (size_t i = 0; r >= 0 && i < COUNT_OF(limits); i++)
        r = apply_terms_ceiling(&limits[i], TOKEN_UNSET, e);
    for (size_t i = 0; r >= 0 && i < COUNT_OF(capabilities); i++)
        r = apply_terms_ceiling(&capabilities[i], 0, e);
    if (r >= 0 && maker->filesystem == TOKEN_FILES_RO) {
        if (t->filesystem == TOKEN_FILES_RW)
            return err_set(e, ERR_DENIED,
                           "capabilities.filesystem: a read-only token cannot make one with rw");
        t->filesystem = TOKEN_FILES_RO;
    }
    return r < 0 ? r : apply_network_ceiling(q->capabilities.network, maker->network, t, e);
}

/* --- JSON --- */

/* `none`: the value of an absent limit. */
static void write_token_limit(struct json_writer *w, const char *key, int64_t n, int64_t none)
{
    if (n != none)
        json_field_int(w, key, n);
}

static void write_token_network(struct json_writer *w, struct str network)
{
    struct str word;

    if (!network.n) {
        json_field_bool(w, "network", false);
    } else if (str_eq(network, STR(TOKEN_PUBLIC))) {
        json_field_str(w, "network", network);
    } else {
        json_field_begin_array(w, "network");
        while (network.n) {
            network = str_cut(network, ' ', &word);
            json_put_str(w, word);
        }
        json_end_array(w);
    }
}

void terms_write_limits(struct json_writer *w, const struct token_terms *t)
{
    json_begin_object(w);
    write_token_limit(w, "sandboxes_per_hour", t->per_hour, TOKEN_UNSET);
    write_token_limit(w, "minutes_per_day", t->per_day, TOKEN_UNSET);
    write_token_limit(w, "concurrent", t->concurrent, TOKEN_UNSET);
    write_token_limit(w, "calls_per_minute", t->calls, TOKEN_UNSET);
    json_end_object(w);
}

void terms_write_capabilities(struct json_writer *w, const struct token_terms *t)
{
    json_begin_object(w);
    write_token_network(w, t->network);
    if (t->filesystem != TOKEN_FILES_ANY)
        json_field_cstr(w, "filesystem", accesses[t->filesystem == TOKEN_FILES_RW]);
    write_token_limit(w, "duration_s", t->duration_s, 0);
    write_token_limit(w, "memory_mb", t->memory_mb, 0);
    if (t->cpu_milli)
        json_field_double(w, "cpu_quota", (double)t->cpu_milli / 1000);
    json_end_object(w);
}
