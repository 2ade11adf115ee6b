/* SPDX-License-Identifier: Apache-2.0 */
/* `expire` and `reap-stale`: both show what would go, and take it away with --apply. */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

struct reap_options {
    struct common common;
    bool apply;
};

static const struct option_spec options[] = {
    { "apply", 0, NULL, "apply the changes instead of only showing them", .kind = OPTION_FLAG,
      .at = offsetof(struct reap_options, apply) },
};

static const struct column due_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("REASON", "reason", .most = 60),
};
static const struct answer_kind kind_due = { "due", "sandbox_id", due_columns,
                                             COUNT_OF(due_columns) };

static struct reap_options asked;

static int write_apply_flag(const struct verb *v, const void *options_, char **argv,
                            struct json_writer *w)
{
    const struct reap_options *o = options_;

    json_key(w, STR("apply"));
    json_put_bool(w, o->apply);
    return 0;
}

static int run_expire(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/expire",
                                          .options = &asked,
                                          .body = write_apply_flag,
                                          .kind = &kind_due,
                                          .list = true,
                                          .doing = "listing expired sandboxes" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_expire = {
    .name = "expire",
    .arguments = "",
    .summary = "show which sandboxes are due, and reap them with --apply",
    .text = "The daemon does this regularly; this verb shows it, or does it at once.\n"
            "\n"
            "  sandboxer expire\n"
            "  sandboxer expire --apply\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_expire,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_reap_stale(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/reap-stale",
                                          .options = &asked,
                                          .body = write_apply_flag,
                                          .kind = &kind_stale,
                                          .list = true,
                                          .doing = "listing leftovers" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_reap_stale = {
    .name = "reap-stale",
    .arguments = "",
    .summary = "show leftovers of dead sandboxes, and remove them with --apply",
    .text = "  sandboxer reap-stale\n"
            "  sandboxer reap-stale --apply\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_reap_stale,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};
