#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("NAME", "name", .most = 32),
    COLUMN("OWNER", "owner", .most = 20),
    COLUMN("ACTOR", "actor"),
    COLUMN("ROLE", "role"),
    COLUMN("VERBS", "verbs", .most = 40),
    COLUMN("LABELS", "labels", .most = 40),
    COLUMN("CREATED", "created_at", .show = show_age),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("SECRET", "token", .alone = true),
};
static const struct kind kind = { "tokens", "id", columns, COUNT_OF(columns) };
/* With -q, a new token is its secret. */
static const struct kind kind_secret = { "tokens", "token", columns, COUNT_OF(columns) };

struct create_options {
    struct common common;
    struct option_list verbs, labels;
    const char *ttl, *actor, *role;
    bool gateway, e2b, daytona;
};

#define AT(member) .at = offsetof(struct create_options, member)

static const struct option_spec create_options[] = {
    { "verb", 0, "VERB", "what it may do; can be repeated (default: everything but admin)",
      .kind = OPTION_LIST, AT(verbs), .words = "read create exec files extend destroy admin" },
    { "label", 'l', "KEY=VALUE", "only for sandboxes with this label; can be repeated",
      .kind = OPTION_PAIRS, AT(labels) },
    { "ttl", 0, "DURATION", "how long it is good for", .kind = OPTION_DURATION, AT(ttl) },
    { "actor", 0, "KIND", "who uses it: adm, agt or atm", .kind = OPTION_WORD, AT(actor),
      .words = "adm agt atm" },
    { "role", 0, "ROLE", "how far its sessions are trusted; a master decides what waits for one",
      .kind = OPTION_WORD, AT(role), .words = "apprentice journeyman master" },
    { "gateway", 0, NULL, "its bearer vouches for others", .kind = OPTION_FLAG, AT(gateway) },
    { "e2b", 0, NULL, "a key for clients of E2B: prints what to export", .kind = OPTION_FLAG,
      AT(e2b) },
    { "daytona", 0, NULL, "a key for clients of Daytona: prints what to export",
      .kind = OPTION_FLAG, AT(daytona) },
};

static int put(const struct verb *v, const void *options, char **argv, struct json_writer *w)
{
    const struct create_options *o = options;

    if (!argv[0] && !o->e2b && !o->daytona)
        return verb_misused(v, "too few arguments: say what the token is for");
    body_text(w, "name", argv[0] ? argv[0] : o->e2b ? "e2b" : "daytona");
    body_list(w, "verbs", &o->verbs);
    body_pairs(w, "labels", &o->labels);
    body_text(w, "ttl", o->ttl);
    body_text(w, "actor", o->actor);
    body_text(w, "role", o->role);
    body_flag(w, "gateway", o->gateway);
    body_flag(w, "e2b", o->e2b);
    body_flag(w, "daytona", o->daytona);
    return 0;
}

/* In quotes, for a shell's eval; what would end them is not there. */
static bool print_export(const char *name, const struct json *value)
{
    if (!value || value->type != JSON_STR || str_find(value->s, '\'') < value->s.n)
        return false;
    printf("export %s='%s'\n", name, value->s.p);
    return true;
}

static void print_e2b(const struct json *v)
{
    const struct json *url = json_get(v, STR("e2b_url"));

    if (print_export("E2B_DOMAIN", json_get(v, STR("e2b_domain"))))
        print_export("NODE_EXTRA_CA_CERTS", json_get(v, STR("authority")));
    else if (!print_export("E2B_API_URL", url) || !print_export("E2B_SANDBOX_URL", url))
        fprintf(stderr, "sandboxer: the daemon listens on no TCP address: start it with --listen "
                        "and set E2B_API_URL and E2B_SANDBOX_URL to that\n");
    print_export("E2B_API_KEY", json_get(v, STR("token")));
}

static void print_daytona(const struct json *v)
{
    if (!print_export("DAYTONA_API_URL", json_get(v, STR("daytona_url"))))
        fprintf(stderr, "sandboxer: the daemon listens on no TCP address: start it with --listen "
                        "and set DAYTONA_API_URL to that and /daytona\n");
    print_export("DAYTONA_API_KEY", json_get(v, STR("token")));
}

static int print_created(const struct call *c, const void *options, const struct json *v)
{
    const struct create_options *o = options;

    if (!o->e2b && !o->daytona)
        return -1;
    if (o->e2b)
        print_e2b(v);
    if (o->daytona)
        print_daytona(v);
    return answer_flush(c);
}

static int run_create(const struct verb *v, int argc, char **argv)
{
    static struct create_options o;
    static const struct simple simple = {
        .method = "POST",
        .before = "/v1/tokens",
        .options = &o,
        .body = put,
        .kind = &kind_secret,
        .print = print_created,
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_token_create = {
    .name = "token create",
    .arguments = "[NAME]",
    .summary = "make a token for the daemon's TCP address",
    .text =
        "The secret is shown once and cannot be shown again; -q prints nothing else.\n"
        "\n"
        "  SANDBOXER_TOKEN=$(sandboxer token create -q ci --verb create --verb exec --ttl 1h)\n"
        "\n"
        "With --e2b it is a key for clients of E2B, and what they read is printed for a shell:\n"
        "\n"
        "  eval \"$(sandboxer token create --e2b)\"\n"
        "\n"
        "With --daytona it is one for clients of Daytona, in the same way.\n",
    .options = create_options,
    .n_options = COUNT_OF(create_options),
    .run = run_create,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 0,
    .max_arguments = 1,
};

static int run_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/tokens", .kind = &kind, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_token_list = {
    .name = "token list",
    .arguments = "",
    .summary = "list tokens, without their secrets",
    .text = "  sandboxer token list\n",
    .run = run_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_revoke(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "DELETE",
                                          .before = "/v1/tokens/",
                                          .done = "revoked" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_token_revoke = {
    .name = "token revoke",
    .arguments = "ID",
    .summary = "make a token useless",
    .text = "  sandboxer token revoke tok_4k7\n",
    .run = run_revoke,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_TOKEN,
};
