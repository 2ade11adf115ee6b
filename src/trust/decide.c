/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/decide.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

const char *const trust_failure_names[] = { "static", "closed", "open", NULL };

const char *const trust_check_names[] = { "bundle", "rule",   "capabilities", "role", "args",
                                          "rate",   "limits", "approval",     NULL };

enum { SCRATCH_MAX = 1 << 20, NAME_SHOWN = 64 };

/* A case during its evaluation. */
struct case_evaluation {
    const struct trust_case *c;
    struct trust_decision *d;
    struct arena scratch;
    struct trust_capabilities has; /* from CHECK_CAPABILITIES on */
};

/* --- verdicts --- */

/* Sets the verdict; `rule` is the path of the deciding field in the bundle. */
static bool __attribute__((format(printf, 4, 5)))
set_verdict(struct case_evaluation *j, enum verdict_kind kind, const char *field, const char *fmt,
            ...)
{
    struct verdict *v = &j->d->verdict;
    const struct trust_when *w = j->d->when;
    /* a field of the terms, which a `when` can override */
    bool of_terms = strncmp(field, "args", 4) != 0 && strcmp(field, "rate") != 0;
    va_list ap;

    v->kind = kind;
    if (!j->d->rule)
        snprintf(v->rule, sizeof v->rule, "%s", field);
    else if (w && j->d->terms == &w->terms && of_terms)
        snprintf(v->rule, sizeof v->rule, "tools.%.40s.when.%.32s.%s", j->d->rule->tool, w->name,
                 field);
    else
        snprintf(v->rule, sizeof v->rule, "tools.%.48s.%.56s", j->d->rule->tool, field);
    va_start(ap, fmt);
    vsnprintf(v->reason, sizeof v->reason, fmt, ap);
    va_end(ap);
    return true;
}

#define DENY(j, field, ...) set_verdict((j), VERDICT_DENY, (field), __VA_ARGS__)

/* --- checks: true if decided --- */

static bool check_bundle_mode(struct case_evaluation *j)
{
    const struct trust_bundle *b = j->c->bundle;

    if (b && b->mode != TRUST_OFF)
        return false;
    if (b)
        return set_verdict(j, VERDICT_ALLOW, "mode", "the policy is switched off");
    if (j->c->failure == FAILURE_OPEN)
        return set_verdict(j, VERDICT_ALLOW, "failure",
                           "no policy could be loaded, and trust.failure is open");
    return DENY(j, "failure", "no policy could be loaded: all calls are denied until one is");
}

static bool when_applies(const struct trust_when *w, const struct trust_capabilities *has,
                         const char *client)
{
    bool rw = has->filesystem == ASK_ACCESS_RW;

    if (w->network_given && w->network != has->network)
        return false;
    if (w->filesystem_given && (!has->filesystem || rw != (w->filesystem == 1)))
        return false;
    for (size_t i = 0; i < w->clients.n; i++)
        if (strcmp(w->clients.p[i], client) == 0)
            return true;
    return w->clients.n == 0;
}

/* The capabilities of the existing or requested sandbox. */
static int read_case_capabilities(struct case_evaluation *j, struct trust_capabilities *ret,
                                  struct err *e)
{
    const struct json *args = j->c->args;

    *ret = j->c->declares  ? *j->c->declares
           : j->c->sandbox ? *j->c->sandbox
                           : (struct trust_capabilities){ 0 };
    if (j->c->declares || !j->d->rule->creates || !args)
        return 0;
    return trust_capabilities_read(json_get(args, STR("capabilities")), ret, &j->scratch, e);
}

static bool check_tool_rule(struct case_evaluation *j)
{
    struct trust_decision *d = j->d;
    char shown[NAME_SHOWN + 1];

    d->rule = trust_bundle_find(j->c->bundle, j->c->tool);
    if (!d->rule) {
        log_printable(j->c->tool, shown, sizeof shown);
        return DENY(j, "tools", "there is no rule for a tool '%s'", shown);
    }
    d->terms = &d->rule->terms;
    d->verdict.effect = d->rule->effect;
    return false;
}

static bool check_capabilities(struct case_evaluation *j)
{
    const struct trust_when *when = j->d->rule->when.p;
    const char *client = j->c->client ? j->c->client : "";
    struct trust_capabilities *has = &j->has;
    struct err e;

    if (j->c->args && j->c->args->type != JSON_OBJECT)
        return DENY(j, "args", "the arguments are not an object");
    if (read_case_capabilities(j, has, &e) < 0)
        return DENY(j, "capabilities", "capabilities.%.200s", e.msg);
    for (size_t i = 0; i < j->d->rule->when.n; i++)
        if (when_applies(&when[i], has, client)) {
            j->d->when = &when[i];
            j->d->terms = &when[i].terms;
            break;
        }
    j->d->verdict.tier = (unsigned)j->d->terms->tier;
    return false;
}

static bool check_caller_role(struct case_evaluation *j)
{
    enum role need = j->d->terms->role;

    if (j->c->role >= need)
        return false;
    return DENY(j, "role", "tier %u needs the role %s, and the caller is %s", j->d->verdict.tier,
                role_names[need], role_names[j->c->role]);
}

static bool check_arg_text(struct case_evaluation *j, const struct trust_arg *a, struct str text)
{
    char field[80];
    int r;

    snprintf(field, sizeof field, "args.%.64s", a->name);
    if (text.n > a->max_bytes)
        return DENY(j, field, "%.64s: has %zu bytes, %llu are allowed", a->name, text.n,
                    (unsigned long long)a->max_bytes);
    if (!a->pattern)
        return false;
    r = pattern_match(a->pattern, text);
    if (r > 0)
        return false;
    return DENY(j, field,
                r < 0 ? "%.64s: takes too long to match against the allowed pattern"
                      : "%.64s: does not match the allowed pattern",
                a->name);
}

/* Checks strings and lists of strings. The tool checks other types itself, unless there is a
 * pattern. */
static bool check_argument(struct case_evaluation *j, const struct trust_arg *a)
{
    const struct json *v = j->c->args ? json_get(j->c->args, str_from(a->name)) : NULL;
    char field[80];

    snprintf(field, sizeof field, "args.%.64s", a->name);
    if (!v || v->type == JSON_NULL)
        return a->required && DENY(j, field, "%.64s: is missing", a->name);
    if (v->type == JSON_STR)
        return check_arg_text(j, a, v->s);
    if (!a->pattern)
        return false;
    if (v->type != JSON_ARRAY)
        return DENY(j, field, "%.64s: must be a text", a->name);
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        if (m->type != JSON_STR)
            return DENY(j, field, "%.64s: must be a list of texts", a->name);
        if (check_arg_text(j, a, m->s))
            return true;
    }
    return false;
}

static bool check_arguments(struct case_evaluation *j)
{
    const struct trust_arg *a = j->d->rule->args.p;

    for (size_t i = 0; i < j->d->rule->args.n; i++)
        if (check_argument(j, &a[i]))
            return true;
    return false;
}

/* A token bucket as one timestamp: the moment when the used capacity is refilled. Each call
 * advances it by its cost; it may be ahead of now by at most a burst. The rate of a token replaces
 * the tools' rates. */
static bool check_token_rate(struct case_evaluation *j, const struct token_terms *terms,
                             int64_t *rate_ns, const char *whose)
{
    uint64_t calls = terms && terms->calls > 0 ? (uint64_t)terms->calls : 0;
    const struct trust_rate own = { .calls = calls, .per_ns = 60 * NS_PER_S, .burst = calls },
                            *r = calls ? &own : &j->d->rule->rate;
    int64_t cost, ahead, from = *rate_ns > j->c->now_ns ? *rate_ns : j->c->now_ns;

    if (!r->calls)
        return false;
    cost = r->per_ns / (int64_t)r->calls;
    ahead = cost * (int64_t)r->burst;
    if (from + cost - j->c->now_ns > ahead) {
        j->d->verdict.retry_ns = from + cost - ahead - j->c->now_ns;
        return set_verdict(j, VERDICT_RATE_LIMIT, "rate",
                           "%llu calls in %lld s are allowed%s: try again in %lld ms",
                           (unsigned long long)r->calls, (long long)(r->per_ns / NS_PER_S), whose,
                           (long long)(j->d->verdict.retry_ns / NS_PER_MS + 1));
    }
    *rate_ns = from + cost;
    return false;
}

static void reset_rates(struct case_evaluation *j)
{
    j->d->rate_ns = j->c->rate_ns;
    for (size_t i = 0; i < j->c->n_above; i++)
        j->d->above_rate_ns[i] = j->c->above[i].rate_ns;
}

/* A call is charged to the token and all of its makers: tokens made with a token share its rate. A
 * refused call is not charged. */
static bool check_call_rate(struct case_evaluation *j)
{
    bool refused = check_token_rate(j, j->c->terms, &j->d->rate_ns, "");

    for (size_t i = 0; !refused && i < j->c->n_above; i++)
        refused = check_token_rate(j, j->c->above[i].terms, &j->d->above_rate_ns[i],
                                   " to the token that made this one, with all that it made");
    if (refused)
        reset_rates(j);
    return refused;
}

/* The holder of limits: the caller, or a maker of its token. */
struct limit_holder {
    const struct token_terms *terms; /* NULL: not a token */
    enum role role;
    const struct trust_usage *usage;
    const char *token; /* for messages */
};

/* Checks the limits of the token, or else of its role. */
static bool check_holder_limits(struct case_evaluation *j, const struct limit_holder *of_whom)
{
    static const struct token_terms none = { .per_hour = TOKEN_UNSET,
                                             .per_day = TOKEN_UNSET,
                                             .concurrent = TOKEN_UNSET };
    const struct trust_limits *l = &j->c->bundle->limits[of_whom->role];
    const struct token_terms *t = of_whom->terms ? of_whom->terms : &none;
    const struct trust_usage *u = of_whom->usage;
    const struct {
        const char *what, *one, *of;
        int64_t of_token, of_role, has;
        bool given; /* of_role */
    } all[] = {
        { "concurrent", "sandbox is alive", "sandboxes are alive", t->concurrent, l->concurrent,
          u->alive, l->concurrent_given },
        { "sandboxes_per_hour", "sandbox was made within an hour",
          "sandboxes were made within an hour", t->per_hour, l->sandboxes_per_hour, u->made,
          l->per_hour_given },
        { "minutes_per_day", "minute was used within a day", "minutes were used within a day",
          t->per_day, l->minutes_per_day, u->lived_ns / (60 * NS_PER_S), l->per_day_given },
    };

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bool own = all[i].of_token != TOKEN_UNSET;
        int64_t most = own ? all[i].of_token : all[i].of_role;
        char field[64];

        if ((!own && !all[i].given) || all[i].has + (j->c->makes > 1 ? j->c->makes - 1 : 0) < most)
            continue;
        if (own)
            snprintf(field, sizeof field, "token.limits.%s", all[i].what);
        else
            snprintf(field, sizeof field, "limits.%s.%s", role_names[of_whom->role], all[i].what);
        j->d->rule = NULL; /* the limits decide, not the tool's rule */
        reset_rates(j);
        return set_verdict(j, VERDICT_RATE_LIMIT, field, "%lld %s, of %lld that %s%s may have",
                           (long long)all[i].has, all[i].has == 1 ? all[i].one : all[i].of,
                           (long long)most, own ? of_whom->token : "the role ",
                           own ? "" : role_names[of_whom->role]);
    }
    return false;
}

/* Checks limits of the caller and of all makers: tokens made with a token share its limits. */
static bool check_usage_limits(struct case_evaluation *j)
{
    struct limit_holder who = { j->c->terms, j->c->role, &j->c->usage, "this token" };

    if (!j->d->rule->creates)
        return false;
    if (check_holder_limits(j, &who))
        return true;
    for (size_t i = 0; i < j->c->n_above; i++) {
        const struct trust_ancestor *a = &j->c->above[i];

        who = (struct limit_holder){ a->terms, a->role, &a->usage,
                                     "the token that made this one, with all that it made," };
        if (check_holder_limits(j, &who))
            return true;
    }
    return false;
}

/* Whether the new sandbox exceeds the capabilities that the token has without approval. */
static bool exceeds_token_terms(struct case_evaluation *j)
{
    const struct token_terms *t = j->c->terms;
    const struct trust_capabilities *has = &j->has;
    const struct {
        const char *name;
        int64_t has, most;
    } all[] = {
        { "duration_s", has->duration_s, t ? t->duration_s : 0 },
        { "memory_mb", has->memory_mb, t ? t->memory_mb : 0 },
        { "cpu_quota", (int64_t)(has->cpu_quota * 1000), t ? t->cpu_milli : 0 },
        { "filesystem", has->filesystem == ASK_ACCESS_RW, t && t->filesystem == TOKEN_FILES_RO },
    };

    if (!t || !j->d->rule->creates)
        return false;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bool files = i == COUNT_OF(all) - 1;

        if (!all[i].most || all[i].has <= (files ? 0 : all[i].most))
            continue;
        return set_verdict(j, VERDICT_REQUIRE_APPROVAL, "token.capabilities",
                           "%s is more than this token may have without a master's approval",
                           all[i].name);
    }
    return false;
}

static bool check_approval(struct case_evaluation *j)
{
    const struct trust_when *w = j->d->when;
    /* The terms apply to network access, and this network is approved already. */
    bool approved = j->c->network_approved && w && w->network_given && w->network;
    bool gated = j->d->terms->approval != GATE_NONE && !approved;

    if (!gated && !exceeds_token_terms(j))
        return false;
    if (j->c->granted) {
        j->d->used_grant = true;
        return set_verdict(j, VERDICT_ALLOW, "approval", "a master has granted this");
    }
    if (!gated)
        return true; /* exceeds_token_terms() set the verdict */
    return set_verdict(j, VERDICT_REQUIRE_APPROVAL, "approval",
                       "tier %u waits for a master's approval", j->d->verdict.tier);
}

static bool (*const checks[CHECK_COUNT_])(struct case_evaluation *j) = {
    [CHECK_BUNDLE] = check_bundle_mode,
    [CHECK_RULE] = check_tool_rule,
    [CHECK_CAPABILITIES] = check_capabilities,
    [CHECK_ROLE] = check_caller_role,
    [CHECK_ARGS] = check_arguments,
    [CHECK_RATE] = check_call_rate,
    [CHECK_LIMITS] = check_usage_limits,
    [CHECK_APPROVAL] = check_approval,
};

void trust_decide(const struct trust_case *c, struct trust_decision *ret)
{
    struct case_evaluation j = { .c = c, .d = ret, .scratch = ARENA_INIT(SCRATCH_MAX) };
    unsigned i = 0;

    *ret = (struct trust_decision){ 0 };
    reset_rates(&j);
    if (c->bundle)
        memcpy(ret->verdict.version, c->bundle->version, sizeof ret->verdict.version);
    while (i < CHECK_COUNT_ && !checks[i](&j))
        i++;
    ret->check = (enum trust_check)i;
    if (i == CHECK_COUNT_)
        (void)set_verdict(&j, VERDICT_ALLOW, "tier", "tier %u is allowed to the role %s",
                          ret->verdict.tier, role_names[c->role]);
    arena_done(&j.scratch);
    /* In mode `audit` every call is allowed; `would` has the verdict of `enforce`. */
    ret->verdict.would = ret->verdict.kind;
    if (c->bundle && c->bundle->mode == TRUST_AUDIT)
        ret->verdict.kind = VERDICT_ALLOW;
}
