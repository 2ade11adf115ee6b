/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/sandbox_pages.h"
#include "cli/terminal.h"
#include "cli/unsynced.h"
#include "cli/verbs/verbs.h"

struct destroy_options {
    struct common common;
    bool no_sync, force_sync, keep, discard, all, yes;
};

#define AT(member) .at = offsetof(struct destroy_options, member)

static const struct option_spec options[] = {
    { "no-sync", 0, NULL, "do not copy changes of a mirrored workspace back", AT(no_sync) },
    { "force-sync", 0, NULL, "overwrite files that were changed here in the meantime",
      AT(force_sync) },
    { "keep", 0, NULL, "store changes that cannot be brought back as a snapshot", AT(keep) },
    { "discard", 0, NULL, "lose changes that cannot be brought back", AT(discard) },
    { "all", 0, NULL, "all sandboxes that are yours, after a question", AT(all) },
    { "yes", 'y', NULL, "--all without a question", AT(yes) },
};

/* The changes that were made here, then the sandbox, then where the others are. */
static int print_destroyed(const struct api_call *c, const char *id)
{
    struct str kept = show_string(show_at(c->answer, "kept"), "snapshot_id");
    int status = unsynced_list(c, show_at(c->answer, "synced"));

    if (status)
        return status;
    status = answer_done(c, c->answer, "%s destroyed", id);
    if (kept.n && !c->common->quiet)
        cli_report("%.*s; they are in the snapshot %.*s, for as long as retention.unsynced says: "
                   "sandboxer create --snapshot %.*s",
                   STR_ARG(show_string(show_at(c->answer, "kept"), "reason")), STR_ARG(kept),
                   STR_ARG(kept));
    return status;
}

static int destroy_one_sandbox(const struct api_call *like, const struct destroy_options *o,
                               const char *id)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, like->verb, like->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s", id);
    api_call_query(&c, "sync", o->no_sync ? "no" : o->force_sync ? "force" : "yes");
    api_call_query(&c, "unsynced", o->discard ? "discard" : o->keep ? "keep" : "refuse");
    c.doing = "destroying a sandbox";
    status = api_call_run(&c);
    if (status)
        unsynced_explain(&c, id);
    return status ? status : print_destroyed(&c, id);
}

/* --- all of the caller's own --- */

/* An administrator sees the sandboxes of others too. Over TCP the token's owner is not known here,
 * so all that it sees must be of one. */
static bool is_own_sandbox(const struct api_call *c, const struct json *row, struct str *owner)
{
    struct str has = show_string(row, "owner");
    char own[32];

    if (c->contact.place.tcp) {
        if (!owner->p)
            *owner = has;
        return str_eq(*owner, has);
    }
    snprintf(own, sizeof own, "uid:%u", geteuid());
    return str_eq(has, str_from(own));
}

/* Collects the ids of the sandboxes to destroy. A status. */
static int list_own_sandboxes(const struct verb *v, const struct sandbox_pages *p,
                              struct json_build *ret)
{
    const struct json *rows = &p->list;
    struct str owner = { NULL, 0 };

    for (const struct json *row = json_first(rows); row != json_end(rows); row++) {
        bool own = is_own_sandbox(sandbox_pages_call(p), row, &owner);

        if (!own && owner.p)
            return verb_misused(v, "--all: this token sees sandboxes of several owners; name those "
                                   "to destroy");
        if (own && json_build_push(ret, show_at(row, "sandbox_id")) < 0)
            return verb_failed(
                v, "--all: the ids need more memory than is allowed; destroy some by id first");
    }
    return 0;
}

static int confirm_all(const struct verb *v, const struct destroy_options *o, size_t n)
{
    char question[64];

    if (o->yes)
        return 0;
    if (isatty(STDIN_FILENO) != 1)
        return verb_misused(v, "--all: %zu sandbox%s would be destroyed; confirm with --yes", n,
                            n == 1 ? "" : "es");
    snprintf(question, sizeof question, "Destroy %zu sandbox%s?", n, n == 1 ? "" : "es");
    return terminal_confirm(question) ? 0 : EXIT_REPORTED;
}

static int destroy_own_sandboxes(const struct api_call *c, const struct destroy_options *o)
{
    static const struct sandbox_filter any;
    AUTO(sandbox_pages_done) struct sandbox_pages p;
    AUTO(json_build_done) struct json_build ids = { 0 };
    struct json list;
    int status = sandbox_pages_fetch(&p, c->verb, c->common, &any), first_failure = 0;

    if (status)
        return status;
    json_build_init(&ids, &p.arena);
    status = list_own_sandboxes(c->verb, &p, &ids);
    if (status)
        return status;
    if (json_build_close(&ids, 0, &list) < 0)
        return verb_failed(
            c->verb, "--all: the ids need more memory than is allowed; destroy some by id first");
    list.type = JSON_ARRAY;
    if (json_first(&list) == json_end(&list))
        return 0;
    status = confirm_all(c->verb, o, (size_t)(json_end(&list) - json_first(&list)));
    if (status)
        return status;
    for (const struct json *id = json_first(&list); id != json_end(&list); id++) {
        status = destroy_one_sandbox(c, o, id->s.p);
        if (!first_failure)
            first_failure = status;
    }
    return first_failure;
}

static int run_destroy(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct destroy_options *o = options_;
    int first_failure = 0;

    if (o->no_sync && o->force_sync)
        return verb_misused(c->verb, "--no-sync and --force-sync exclude each other");
    if (o->keep && o->discard)
        return verb_misused(c->verb, "--keep and --discard exclude each other");
    if (o->all && argc)
        return verb_misused(c->verb, "--all excludes ids");
    if (!o->all && !argc)
        return verb_misused(c->verb, "too few arguments: sandboxer destroy [OPTION…] ID…");
    if (o->all)
        return destroy_own_sandboxes(c, o);
    for (int i = 0; i < argc; i++) {
        int status = destroy_one_sandbox(c, o, argv[i]);

        if (!first_failure)
            first_failure = status;
    }
    return first_failure;
}

const struct verb verb_destroy = {
    .name = "destroy",
    .aliases = "rm,delete",
    ARGUMENTS("ID…", 0, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "destroy sandboxes in any state",
    .text = "Changes in a mirrored workspace are brought back first, and listed. If some cannot\n"
            "be (changed on both sides, held back, refused), the sandbox is not destroyed: they\n"
            "are listed, with the ways out, and the exit status is 4. --keep stores them as a\n"
            "snapshot of the sandbox instead, which is deleted after a week\n"
            "(retention.unsynced); if there is no room for it, the sandbox stays paused.\n"
            "--discard loses them. Destroying a sandbox again is no error. With several ids all\n"
            "are tried; the exit status is that of the first failure. --all destroys every\n"
            "sandbox of yours, not those of other users that an administrator sees; it asks on a\n"
            "terminal and needs --yes elsewhere.\n"
            "\n"
            "  sandboxer destroy sbx_4k7\n"
            "  sandboxer destroy --keep sbx_4k7\n"
            "  sandboxer destroy --all --yes\n"
            "  sandboxer destroy --no-sync $(sandboxer list -q --label team=web)\n",
    OPTIONS(options, struct destroy_options),
    .run = run_destroy,
    .flags = VERB_ASKS,
};
