/* `expire` and `reap-stale`: both show what would go, and take it away with --apply. */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs.h"

struct reap_options {
    struct common common;
    bool apply;
};

static const struct option_spec options[] = {
    { "apply", 0, NULL, "do it, instead of showing what would be done", .kind = OPTION_FLAG,
      .at = offsetof(struct reap_options, apply) },
};

static const struct column due_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("REASON", "reason", .most = 60),
};
static const struct kind kind_due = { "due", "sandbox_id", due_columns, COUNT_OF(due_columns) };

static struct reap_options asked;

static int put(const struct verb *v, const void *options_, char **argv, struct json_writer *w)
{
    const struct reap_options *o = options_;

    (void)v;
    (void)argv;
    json_key(w, STR("apply"));
    json_put_bool(w, o->apply);
    return 0;
}

static int run_expire(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/expire",
                                          .options = &asked,
                                          .body = put,
                                          .kind = &kind_due,
                                          .list = true,
                                          .doing = "looking for what is due" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_expire = {
    .name = "expire",
    .arguments = "",
    .summary = "show which sandboxes are due, and reap them with --apply",
    .text = "The daemon does this by itself; this is for looking, and for now.\n"
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
                                          .body = put,
                                          .kind = &kind_stale,
                                          .list = true,
                                          .doing = "looking for what is left" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_reap_stale = {
    .name = "reap-stale",
    .arguments = "",
    .summary = "show what dead sandboxes have left, and remove it with --apply",
    .text = "  sandboxer reap-stale\n"
            "  sandboxer reap-stale --apply\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_reap_stale,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};
