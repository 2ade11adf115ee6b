/* SPDX-License-Identifier: Apache-2.0 */
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

static int run_cp(struct api_call *call, void *options_, int argc, char **argv)
{
    const struct cp_options *o = options_;
    const struct copy c = { .verb = call->verb, .common = call->common, .user = o->user };
    struct copy_end from, to;
    struct err e;
    int status = 0;

    if (copy_end(argv[argc - 1], &to, &e) < 0)
        return verb_misused(c.verb, "%s", e.msg);
    for (int i = 0; i < argc - 1 && status == 0; i++) {
        if (copy_end(argv[i], &from, &e) < 0)
            return verb_misused(c.verb, "%s", e.msg);
        if (argc > 2 && (from.stream || to.stream))
            return verb_misused(c.verb, "'-' is one archive: name one source and one target");
        status = copy_one_path(&c, &from, &to, argc > 2);
    }
    return status;
}

const struct verb verb_cp = {
    .name = "cp",
    ARGUMENTS("SOURCE… TARGET", 2, ARGUMENTS_ANY, COMPLETE_SANDBOX_OR_FILE),
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
    OPTIONS(options, struct cp_options),
    .run = run_cp,
    .flags = VERB_REMOTE,
};
