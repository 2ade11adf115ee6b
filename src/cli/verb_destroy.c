#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs.h"

struct destroy_options {
    struct common common;
    bool no_sync, force_sync;
};

#define AT(member) .at = offsetof(struct destroy_options, member)

static const struct option_spec options[] = {
    { "no-sync", 0, NULL, "leave a mirrored workspace as it is here", .kind = OPTION_FLAG,
      AT(no_sync) },
    { "force-sync", 0, NULL, "overwrite what has changed here in the meantime", .kind = OPTION_FLAG,
      AT(force_sync) },
};

static int destroy(const struct verb *v, const struct destroy_options *o, const char *id)
{
    AUTO(call_done) struct call c;
    int status;

    call_init(&c, v, &o->common, "DELETE");
    call_path(&c, "/v1/sandboxes/%s", id);
    call_query(&c, "sync", o->no_sync ? "no" : o->force_sync ? "force" : NULL);
    c.doing = "destroying a sandbox";
    status = call_run(&c);
    return status ? status : answer_done(&c, c.answer, "%s destroyed", id);
}

static int run(const struct verb *v, int argc, char **argv)
{
    struct destroy_options o = { 0 };
    int status, first_failure = 0;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (o.no_sync && o.force_sync)
        return verb_misused(v, "--no-sync and --force-sync exclude each other");
    for (int i = 0; i < argc; i++) {
        status = destroy(v, &o, argv[i]);
        if (!first_failure)
            first_failure = status;
    }
    return first_failure;
}

const struct verb verb_destroy = {
    .name = "destroy",
    .arguments = "ID…",
    .summary = "destroy sandboxes, whatever state they are in",
    .text =
        "Changes in a mirrored workspace are brought back first. Destroying a sandbox again is no\n"
        "error. With several ids all are tried; the exit status is that of the first failure.\n"
        "\n"
        "  sandboxer destroy sbx_4k7\n"
        "  sandboxer destroy --no-sync $(sandboxer list -q --label team=web)\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_ANY,
    .complete = COMPLETE_SANDBOX,
};
