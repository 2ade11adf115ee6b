#include "trust/decide.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

const char *const trust_failure_names[] = { "static", "closed", "open", NULL };

const char *const trust_check_names[] = { "bundle", "rule",   "capabilities", "role", "args",
                                          "rate",   "limits", "approval",     NULL };

enum { SCRATCH_MAX = 1 << 20, NAME_SHOWN = 64 };

/* A case while it is looked at. */
struct judging {
    const struct trust_case *c;
    struct trust_decision *d;
    struct arena scratch;
    struct trust_capabilities has; /* from CHECK_CAPABILITIES on */
};

/* --- saying it --- */

static bool decided(struct judging *j, enum verdict_kind kind, const char *field, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));

/* Whether a `when` has it as well as the tool itself. */
static bool is_of_terms(const char *field)
{
    return strncmp(field, "args", 4) != 0 && strcmp(field, "rate") != 0;
}

/* The rule is named as the place in the bundle that has it. */
static bool decided(struct judging *j, enum verdict_kind kind, const char *field, const char *fmt,
                    ...)
{
    struct verdict *v = &j->d->verdict;
    const struct trust_when *w = j->d->when;
    va_list ap;

    v->kind = kind;
    if (!j->d->rule)
        snprintf(v->rule, sizeof v->rule, "%s", field);
    else if (w && j->d->terms == &w->terms && is_of_terms(field))
        snprintf(v->rule, sizeof v->rule, "tools.%.40s.when.%.32s.%s", j->d->rule->tool, w->name,
                 field);
    else
        snprintf(v->rule, sizeof v->rule, "tools.%.48s.%.56s", j->d->rule->tool, field);
    va_start(ap, fmt);
    vsnprintf(v->reason, sizeof v->reason, fmt, ap);
    va_end(ap);
    return true;
}

#define DENY(j, field, ...) decided((j), VERDICT_DENY, (field), __VA_ARGS__)

/* --- the checks: true if it decided --- */

static bool check_bundle(struct judging *j)
{
    const struct trust_bundle *b = j->c->bundle;

    if (b && b->mode != TRUST_OFF)
        return false;
    if (b)
        return decided(j, VERDICT_ALLOW, "mode", "the policy is switched off");
    if (j->c->failure == FAILURE_OPEN)
        return decided(j, VERDICT_ALLOW, "failure",
                       "no policy could be loaded, and the configuration says: open");
    return DENY(j, "failure", "no policy could be loaded: nothing is allowed until one is");
}

static bool fits(const struct trust_when *w, const struct trust_capabilities *has,
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

/* What the sandbox is declared to be: of the one there is, or of the one that is asked for. */
static int read_capabilities(struct judging *j, struct trust_capabilities *ret, struct err *e)
{
    const struct json *args = j->c->args;

    *ret = j->c->declares  ? *j->c->declares
           : j->c->sandbox ? *j->c->sandbox
                           : (struct trust_capabilities){ 0 };
    if (j->c->declares || !j->d->rule->creates || !args)
        return 0;
    return trust_capabilities_read(json_get(args, STR("capabilities")), ret, &j->scratch, e);
}

static bool check_rule(struct judging *j)
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

static bool check_capabilities(struct judging *j)
{
    const struct trust_when *when = j->d->rule->when.p;
    const char *client = j->c->client ? j->c->client : "";
    struct trust_capabilities *has = &j->has;
    struct err e;

    if (j->c->args && j->c->args->type != JSON_OBJECT)
        return DENY(j, "args", "the arguments are not an object");
    if (read_capabilities(j, has, &e) < 0)
        return DENY(j, "capabilities", "capabilities.%.200s", e.msg);
    for (size_t i = 0; i < j->d->rule->when.n; i++)
        if (fits(&when[i], has, client)) {
            j->d->when = &when[i];
            j->d->terms = &when[i].terms;
            break;
        }
    j->d->verdict.tier = (unsigned)j->d->terms->tier;
    return false;
}

static bool check_role(struct judging *j)
{
    enum role need = j->d->terms->role;

    if (j->c->role >= need)
        return false;
    return DENY(j, "role", "tier %u needs the role %s, and the caller is %s", j->d->verdict.tier,
                role_names[need], role_names[j->c->role]);
}

static bool check_text(struct judging *j, const struct trust_arg *a, struct str text)
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
                r < 0 ? "%.64s: takes too long to compare with what is allowed"
                      : "%.64s: is not what is allowed",
                a->name);
}

/* Texts, and lists of texts; other values are the tool's own to check, unless a pattern is asked.
 */
static bool check_arg(struct judging *j, const struct trust_arg *a)
{
    const struct json *v = j->c->args ? json_get(j->c->args, str_from(a->name)) : NULL;
    char field[80];

    snprintf(field, sizeof field, "args.%.64s", a->name);
    if (!v || v->type == JSON_NULL)
        return a->required && DENY(j, field, "%.64s: is missing", a->name);
    if (v->type == JSON_STR)
        return check_text(j, a, v->s);
    if (!a->pattern)
        return false;
    if (v->type != JSON_ARRAY)
        return DENY(j, field, "%.64s: must be a text", a->name);
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        if (m->type != JSON_STR)
            return DENY(j, field, "%.64s: must be a list of texts", a->name);
        if (check_text(j, a, m->s))
            return true;
    }
    return false;
}

static bool check_args(struct judging *j)
{
    const struct trust_arg *a = j->d->rule->args.p;

    for (size_t i = 0; i < j->d->rule->args.n; i++)
        if (check_arg(j, &a[i]))
            return true;
    return false;
}

/* Instead of the tools' own rates; without any calls if the token does not say. */
static struct trust_rate rate_of_token(const struct token_terms *t)
{
    uint64_t calls = t && t->calls > 0 ? (uint64_t)t->calls : 0;

    return (struct trust_rate){ .calls = calls, .per_ns = 60 * NS_PER_S, .burst = calls };
}

/* One moment stands for the bucket: when it would be empty of what was used. Each call moves it by
 * what a call costs; it may be ahead of now by a burst. */
static bool check_rate(struct judging *j)
{
    const struct trust_rate own = rate_of_token(j->c->terms),
                            *r = own.calls ? &own : &j->d->rule->rate;
    int64_t cost, ahead, from = j->c->rate_ns > j->c->now_ns ? j->c->rate_ns : j->c->now_ns;

    if (!r->calls)
        return false;
    cost = r->per_ns / (int64_t)r->calls;
    ahead = cost * (int64_t)r->burst;
    if (from + cost - j->c->now_ns > ahead) {
        j->d->verdict.retry_ns = from + cost - ahead - j->c->now_ns;
        return decided(j, VERDICT_RATE_LIMIT, "rate",
                       "%llu calls in %lld s are allowed: try again in %lld ms",
                       (unsigned long long)r->calls, (long long)(r->per_ns / NS_PER_S),
                       (long long)(j->d->verdict.retry_ns / NS_PER_MS + 1));
    }
    j->d->rate_ns = from + cost;
    return false;
}

/* A limit of the token, where it has one, or of its role. */
struct limit {
    int64_t most;
    bool given, of_token;
};

static struct limit limit_of(int64_t of_token, bool given, int64_t of_role)
{
    bool own = of_token != TOKEN_UNSET;

    return (struct limit){ own ? of_token : of_role, own || given, own };
}

/* Whose limits are looked at: those of the caller, or of a token that made it. */
struct limited {
    const struct token_terms *terms; /* NULL: no token's */
    enum role role;
    const struct trust_usage *usage;
    const char *token; /* for messages */
};

static bool over(struct judging *j, const struct limited *of_whom, const char *what, struct limit l,
                 int64_t has, const char *of)
{
    char field[64];

    if (!l.given || has + (j->c->makes > 1 ? j->c->makes - 1 : 0) < l.most)
        return false;
    if (l.of_token)
        snprintf(field, sizeof field, "token.limits.%s", what);
    else
        snprintf(field, sizeof field, "limits.%s.%s", role_names[of_whom->role], what);
    j->d->rule = NULL; /* it is not the tool's rule that decides */
    j->d->rate_ns = j->c->rate_ns;
    return decided(j, VERDICT_RATE_LIMIT, field, "%lld %s, of %lld that %s%s may have",
                   (long long)has, of, (long long)l.most, l.of_token ? of_whom->token : "the role ",
                   l.of_token ? "" : role_names[of_whom->role]);
}

static bool check_limits_of(struct judging *j, const struct limited *of_whom)
{
    static const struct token_terms none = { .per_hour = TOKEN_UNSET,
                                             .per_day = TOKEN_UNSET,
                                             .concurrent = TOKEN_UNSET };
    const struct trust_limits *l = &j->c->bundle->limits[of_whom->role];
    const struct token_terms *t = of_whom->terms ? of_whom->terms : &none;
    const struct trust_usage *u = of_whom->usage;

    return over(j, of_whom, "concurrent",
                limit_of(t->concurrent, l->concurrent_given, l->concurrent), u->alive,
                "sandboxes are alive") ||
           over(j, of_whom, "sandboxes_per_hour",
                limit_of(t->per_hour, l->per_hour_given, l->sandboxes_per_hour), u->made,
                "sandboxes were made within an hour") ||
           over(j, of_whom, "minutes_per_day",
                limit_of(t->per_day, l->per_day_given, l->minutes_per_day),
                u->lived_ns / (60 * NS_PER_S), "minutes were used within a day");
}

/* Tokens made with a token use what that one may use, all together. */
static bool check_limits(struct judging *j)
{
    struct limited who = { j->c->terms, j->c->role, &j->c->usage, "this token" };

    if (!j->d->rule->creates)
        return false;
    if (check_limits_of(j, &who))
        return true;
    for (size_t i = 0; i < j->c->n_above; i++) {
        const struct trust_above *a = &j->c->above[i];

        who = (struct limited){ a->terms, a->role, &a->usage,
                                "the token that made this one, with all that it made," };
        if (check_limits_of(j, &who))
            return true;
    }
    return false;
}

/* Whether a new sandbox has more than the token may have without asking. */
static bool is_beyond(struct judging *j)
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
        (void)decided(j, VERDICT_REQUIRE_APPROVAL, "token.capabilities",
                      "%s is more than this token may have without a master's approval",
                      all[i].name);
        return true;
    }
    return false;
}

/* The terms are those of calls that reach the network, and this network is approved already. */
static bool is_network_approved(const struct judging *j)
{
    const struct trust_when *w = j->d->when;

    return j->c->network_approved && w && w->network_given && w->network;
}

static bool check_approval(struct judging *j)
{
    bool gated = j->d->terms->approval != GATE_NONE && !is_network_approved(j);

    if (!gated && !is_beyond(j))
        return false;
    if (j->c->granted) {
        j->d->used_grant = true;
        return decided(j, VERDICT_ALLOW, "approval", "a master has granted this");
    }
    if (!gated)
        return true; /* is_beyond() has said why */
    return decided(j, VERDICT_REQUIRE_APPROVAL, "approval", "tier %u waits for a master's approval",
                   j->d->verdict.tier);
}

static bool (*const checks[CHECK_COUNT_])(struct judging *j) = {
    [CHECK_BUNDLE] = check_bundle,
    [CHECK_RULE] = check_rule,
    [CHECK_CAPABILITIES] = check_capabilities,
    [CHECK_ROLE] = check_role,
    [CHECK_ARGS] = check_args,
    [CHECK_RATE] = check_rate,
    [CHECK_LIMITS] = check_limits,
    [CHECK_APPROVAL] = check_approval,
};

/* In `audit` everything passes, and the verdict says what would not. */
static void apply_mode(const struct trust_case *c, struct verdict *v)
{
    v->would = v->kind;
    if (c->bundle && c->bundle->mode == TRUST_AUDIT)
        v->kind = VERDICT_ALLOW;
}

void trust_decide(const struct trust_case *c, struct trust_decision *ret)
{
    struct judging j = { .c = c, .d = ret, .scratch = ARENA_INIT(SCRATCH_MAX) };
    unsigned i = 0;

    *ret = (struct trust_decision){ .rate_ns = c->rate_ns };
    if (c->bundle)
        memcpy(ret->verdict.version, c->bundle->version, sizeof ret->verdict.version);
    while (i < CHECK_COUNT_ && !checks[i](&j))
        i++;
    ret->check = (enum trust_check)i;
    if (i == CHECK_COUNT_)
        (void)decided(&j, VERDICT_ALLOW, "tier", "tier %u is allowed to the role %s",
                      ret->verdict.tier, role_names[c->role]);
    arena_done(&j.scratch);
    apply_mode(c, &ret->verdict);
}
