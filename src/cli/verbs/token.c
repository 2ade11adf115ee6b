/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"
#include "domain/model/token.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("NAME", "name", .most = 32),
    COLUMN("OWNER", "owner", .most = 20),
    COLUMN("ACTOR", "actor"),
    COLUMN("ROLE", "role"),
    COLUMN("VERBS", "verbs", .most = 40),
    COLUMN("LABELS", "labels", .most = 40),
    COLUMN("LIMITS", "limits", .most = 80),
    COLUMN("APPROVED", "capabilities", .most = 60),
    COLUMN("CREATED", "created_at", .show = show_age),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("SECRET", "token", .alone = true),
};
static const struct answer_kind kind = KIND("tokens", "id", columns);
/* With -q, a new token is its secret. */
static const struct answer_kind kind_secret = KIND("tokens", "token", columns);

struct token_options {
    struct common common;
    struct option_list verbs, labels;
    struct option_list limits, hosts;
    const char *ttl, *actor, *role, *egress, *preset, *filesystem, *memory, *cpu, *duration;
    bool gateway, e2b, daytona;
};

#define AT(member) .at = offsetof(struct token_options, member)

static const struct option_spec create_options[] = {
    { "verb", 0, "VERB", "an operation that it allows; can be repeated (default: all but admin)",
      .kind = OPTION_LIST, AT(verbs), .member = "verbs",
      .words = "read create exec files extend destroy admin" },
    { "label", 'l', "KEY=VALUE", "only for sandboxes with this label; can be repeated",
      .kind = OPTION_PAIRS, AT(labels), .member = "labels" },
    { "ttl", 0, "DURATION", "lifetime of the token", .kind = OPTION_DURATION, AT(ttl),
      .member = "ttl" },
    { "actor", 0, "KIND", "who uses it: adm, agt or atm", AT(actor), .member = "actor",
      .words = "adm agt atm" },
    { "role", 0, "ROLE", "trust in its sessions; a master approves held calls", AT(role),
      .member = "role", .words = "apprentice journeyman master" },
    { "egress", 0, "REACH",
      "the most that its sandboxes may reach (default: no ceiling of its own)", AT(egress),
      .member = "egress", .words = "none profile listed public local" },
    { "preset", 0, "NAME", "limits to begin with: agent, ci, e2b or daytona", AT(preset),
      .member = "preset", .words = "agent ci e2b daytona" },
    { "limit", 0, "NAME=N",
      "sandboxes_per_hour, minutes_per_day, concurrent or calls_per_minute; can be repeated",
      .kind = OPTION_PAIRS, AT(limits) },
    { "allow-network", 0, "HOST",
      "reached without approval: HOST[:PORT], *.HOST, or 'public' for the internet; can be "
      "repeated",
      .kind = OPTION_LIST, AT(hosts) },
    { "allow-filesystem", 0, "ACCESS", "the workspace without approval: ro or rw", AT(filesystem),
      .words = "ro rw" },
    { "allow-duration", 0, "SECONDS", "how long a sandbox lives without approval", AT(duration) },
    { "allow-memory", 0, "MIB", "memory of a sandbox without approval", AT(memory) },
    { "allow-cpu", 0, "N", "processors of a sandbox without approval", AT(cpu) },
    { "gateway", 0, NULL, "its bearer may act for other users", AT(gateway), .member = "gateway" },
    { "e2b", 0, NULL, "a key for clients of E2B: prints the variables to export", AT(e2b),
      .member = "e2b" },
    { "daytona", 0, NULL, "a key for clients of Daytona: prints the variables to export",
      AT(daytona), .member = "daytona" },
};

static int write_token_limits(const struct verb *v, const struct option_list *limits,
                              struct json_writer *w)
{
    if (!limits->n)
        return 0;
    json_field_begin_object(w, "limits");
    for (size_t i = 0; i < limits->n; i++) {
        struct str name, value = str_cut(str_from(limits->p[i]), '=', &name);
        uint64_t n;

        if (!str_to_u64(value, &n))
            return verb_misused(v, "--limit %s: must be NAME=NUMBER", limits->p[i]);
        json_key(w, name);
        json_put_uint(w, n);
    }
    json_end_object(w);
    return 0;
}

/* As a number of JSON, which the daemon checks. */
static int write_token_amount(const struct verb *v, const char *option, const char *key,
                              const char *text, struct json_writer *w)
{
    char *end;
    double n = text ? strtod(text, &end) : 0;

    if (!text)
        return 0;
    if (end == text || *end)
        return verb_misused(v, "--%s %s: is not a number", option, text);
    if (n == (double)(int64_t)n)
        json_field_int(w, key, (int64_t)n);
    else
        json_field_double(w, key, n);
    return 0;
}

static int write_token_capabilities(const struct verb *v, const struct token_options *o,
                                    struct json_writer *w)
{
    int r;

    if (!o->hosts.n && !o->filesystem && !o->duration && !o->memory && !o->cpu)
        return 0;
    json_field_begin_object(w, "capabilities");
    if (o->hosts.n == 1 && strcmp(o->hosts.p[0], TOKEN_PUBLIC) == 0)
        json_field_str(w, "network", STR(TOKEN_PUBLIC));
    else
        body_list(w, "network", &o->hosts);
    body_text(w, "filesystem", o->filesystem);
    r = write_token_amount(v, "allow-duration", "duration_s", o->duration, w);
    if (r == 0)
        r = write_token_amount(v, "allow-memory", "memory_mb", o->memory, w);
    if (r == 0)
        r = write_token_amount(v, "allow-cpu", "cpu_quota", o->cpu, w);
    json_end_object(w);
    return r;
}

/* Clients of E2B and Daytona speak TCP only: without an address they would send our key to the
 * vendor. A CLI that is connected by TCP knows an address. */
static int check_address(const struct verb *v, const struct token_options *o)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &o->common, "GET");
    api_call_path(&c, "/version");
    status = api_call_run(&c);
    if (status || c.contact.place.tcp || show_string(c.answer, "url").n ||
        (!o->daytona && show_string(c.answer, "domain").n))
        return status;
    cli_report(
        "%s: --%s: no token was made: the daemon listens on no TCP address, and these clients need "
        "one; 'sandboxer daemon listen' gives it one",
        v->name, o->e2b ? "e2b" : "daytona");
    return EXIT_CONFLICT;
}

static int write_token(struct api_call *c, void *options, char **argv)
{
    const struct token_options *o = options;
    int r;

    if (!argv[0] && !o->e2b && !o->daytona)
        return verb_misused(c->verb, "too few arguments: name the token's purpose");
    body_text(&c->json, "name", argv[0] ? argv[0] : o->e2b ? "e2b" : "daytona");
    r = write_token_limits(c->verb, &o->limits, &c->json);
    if (r == 0)
        r = write_token_capabilities(c->verb, o, &c->json);
    return r == 0 && (o->e2b || o->daytona) ? check_address(c->verb, o) : r;
}

/* Prints an assignment in single quotes for a shell's eval; false if the value contains a quote. */
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
    else if (print_export("E2B_API_URL", url))
        print_export("E2B_SANDBOX_URL", url);
    print_export("E2B_API_KEY", json_get(v, STR("token")));
}

static int print_created(const struct api_call *c, const void *options, char **argv)
{
    const struct token_options *o = options;

    if (c->common->quiet || (!o->e2b && !o->daytona))
        return answer_record(c, c->answer, &kind_secret);
    if (o->e2b)
        print_e2b(c->answer);
    if (o->daytona) {
        print_export("DAYTONA_API_URL", json_get(c->answer, STR("daytona_url")));
        print_export("DAYTONA_API_KEY", json_get(c->answer, STR("token")));
    }
    return answer_flush(c);
}

const struct verb verb_token_create = {
    .name = "token create",
    ARGUMENTS("[NAME]", 0, 1, COMPLETE_NOTHING),
    .summary = "make a token for the daemon's TCP address",
    .text = "The secret is shown once and cannot be shown again; -q prints nothing else.\n"
            "\n"
            "  SANDBOXER_TOKEN=$(sandboxer token create -q ci --verb create --verb exec --ttl 1h)\n"
            "\n"
            "With --e2b it is a key for clients of E2B, and their variables are printed for a\n"
            "shell:\n"
            "\n"
            "  key=$(sandboxer token create --e2b) && eval \"$key\"\n"
            "\n"
            "With --daytona it is a key for clients of Daytona, in the same way. Both need a\n"
            "daemon that listens on TCP (sandboxer daemon listen).\n"
            "\n"
            "The policy for tools applies to its holder on every interface. Limits are those of\n"
            "its role, of a preset, or its own; networks named with --allow-network need no\n"
            "approval:\n"
            "\n"
            "  sandboxer token create bot --limit concurrent=5 --allow-network pypi.org:443\n",
    OPTIONS(create_options, struct token_options),
    REQUEST("POST", "/v1/tokens", .body = BODY_JSON, .prepare = write_token, .kind = &kind_secret,
            .print = print_created),
};

const struct verb verb_token_list = {
    .name = "token list",
    .summary = "list tokens, without their secrets",
    .text = "  sandboxer token list\n",
    REQUEST("GET", "/v1/tokens", .kind = &kind, .list = true),
};

/* The id of the one token of that name; a status. */
static int read_token_id(struct api_call *c, const char *name, const char **ret)
{
    const struct json *rows;
    size_t n = 0;
    int status;

    api_call_path(c, "/v1/tokens");
    status = api_call_run(c);
    if (status)
        return status;
    rows = answer_rows(c->answer, &kind);
    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        if (str_eq(show_string(row, "name"), str_from(name)) && n++ == 0)
            *ret = show_string(row, "id").p;
    if (n == 1)
        return 0;
    if (n)
        cli_report("%s: %zu tokens are called '%s'; revoke by id ('sandboxer token list')",
                   c->verb->name, n, name);
    else
        cli_report("%s: there is no token '%s'; 'sandboxer token list' shows ids and names",
                   c->verb->name, name);
    return n ? EXIT_CONFLICT : EXIT_MISSING;
}

static int run_revoke(struct api_call *list, void *options, int argc, char **argv)
{
    AUTO(api_call_done) struct api_call c;
    const char *id = argv[0];
    int status = 0;

    api_call_init(&c, list->verb, list->common, "DELETE");
    if (!str_starts(str_from(id), STR("tok_")))
        status = read_token_id(list, argv[0], &id);
    if (status)
        return status;
    api_call_path(&c, "/v1/tokens/%s", id);
    status = api_call_run(&c);
    if (status)
        return status;
    if (id == argv[0])
        return answer_done(&c, c.answer, "%s revoked", id);
    return answer_done(&c, c.answer, "%s (%s) revoked", argv[0], id);
}

const struct verb verb_token_revoke = {
    .name = "token revoke",
    ARGUMENTS("TOKEN", 1, 1, COMPLETE_TOKEN),
    .summary = "revoke a token",
    .text = "A token is named by its id, or by a name that no other one has.\n"
            "\n"
            "  sandboxer token revoke tok_4k7\n"
            "  sandboxer token revoke ci\n",
    .run = run_revoke,
    .flags = VERB_ASKS,
};
