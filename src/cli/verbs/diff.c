#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs.h"

static const struct column columns[] = {
    COLUMN("CHANGE", "change"),
    COLUMN("KIND", "kind"),
    COLUMN("PATH", "path"),
};
static const struct kind kind = { "changes", "path", columns, COUNT_OF(columns) };

static int run(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(call_done) struct call c;
    int status;

    call_init(&c, v, &common, "GET");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    call_path(&c, "/v1/sandboxes/%s/diff", argv[0]);
    if (argc > 1)
        call_query(&c, "snapshot", argv[1]);
    status = call_run(&c);
    return status ? status : answer_list(&c, c.answer, &kind);
}

const struct verb verb_diff = {
    .name = "diff",
    .arguments = "ID [SNAPSHOT]",
    .summary = "show what a sandbox has changed since it was made, or against a snapshot",
    .text =
        "Paths are from the sandbox's root. What is the same in every new sandbox is left out, "
        "and so are\n"
        "/run, /dev, /proc and /sys. Against a snapshot, what the sandbox shows is compared with "
        "what a new\n"
        "one of that snapshot would: content, kind, mode and owner, not times.\n"
        "\n"
        "  sandboxer diff sbx_4k7\n"
        "  sandboxer diff sbx_4k7 before-upgrade\n",
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
