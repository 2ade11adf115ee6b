/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/copy.h"
#include "cli/verbs/verbs.h"

struct cp_options {
    struct common common;
    const char *user;
};

static const struct option_spec options[] = {
    { "user", 'u', "USER", "whose rights count in the sandbox (default: root)",
      .at = offsetof(struct cp_options, user) },
};

static int copy_one_path(const struct copy *c, const struct copy_end *from,
                         const struct copy_end *to, bool several)
{
    if (from->sandbox[0] && to->sandbox[0])
        return verb_misused(c->verb, "one side must be here: copy from a sandbox, then to another");
    if (!from->sandbox[0] && !to->sandbox[0])
        return verb_misused(c->verb, "one side must be in a sandbox: ID:/PATH");
    if (to->sandbox[0])
        return from->stream ? copy_in_stream(c, to) : copy_in(c, from->path, to, several);
    return to->stream ? copy_out_stream(c, from) : copy_out(c, from, to->path, several);
}

static int run_cp(const struct verb *v, int argc, char **argv)
{
    struct cp_options o = { 0 };
    struct copy c = { .verb = v, .common = &o.common };
    struct copy_end from, to;
    struct err e;
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    c.user = o.user;
    if (copy_end(argv[argc - 1], &to, &e) < 0)
        return verb_misused(v, "%s", e.msg);
    for (int i = 0; i < argc - 1 && status == 0; i++) {
        if (copy_end(argv[i], &from, &e) < 0)
            return verb_misused(v, "%s", e.msg);
        if (argc > 2 && (from.stream || to.stream))
            return verb_misused(v, "'-' is one archive: name one source and one target");
        status = copy_one_path(&c, &from, &to, argc > 2);
    }
    return status;
}

const struct verb verb_cp = {
    .name = "cp",
    .arguments = "SOURCE… TARGET",
    .summary = "copy files into a sandbox or out of it",
    .text = "ID:/PATH is in a sandbox, anything else is here; write ./a:b for a name with a\n"
            "colon. Directories are copied whole. A target that is a directory takes the source\n"
            "under its name, or its content if the source ends in '/.'; otherwise the target is\n"
            "the copy's name. '-' is a tar archive on stdin or stdout. What comes out of a\n"
            "sandbox never lands outside the target, and loses owners, devices and set-user-id\n"
            "bits.\n"
            "\n"
            "  sandboxer cp ./src sbx_4k7:/workspace/\n"
            "  sandboxer cp sbx_4k7:/workspace/out .\n"
            "  sandboxer cp sbx_4k7:/var/log - | tar t\n",
    OPTIONS(options),
    .run = run_cp,
    .flags = VERB_REMOTE,
    .n_arguments = { 2, ARGUMENTS_ANY },
    .complete = COMPLETE_SANDBOX_OR_FILE,
};
