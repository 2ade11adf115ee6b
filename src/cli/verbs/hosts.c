/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("NAME", "name"),
    COLUMN("ADDRESS", "address", .most = 50),
    COLUMN("SOURCE", "source"),
    COLUMN("ADDED", "added_at", .show = show_age),
    COLUMN("LABELS", "labels", .most = 40),
};
static const struct answer_kind kind = { "hosts", "name", columns, COUNT_OF(columns) };

static int run_hosts_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/hosts", .kind = &kind, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_hosts_list = {
    .name = "hosts list",
    .arguments = "",
    .summary = "list the hosts where sandboxes can be placed",
    .text = "  sandboxer hosts list\n",
    .run = run_hosts_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

struct add_options {
    struct common common;
    struct option_list labels;
};

static const struct option_spec add_options[] = {
    { "label", 'l', "KEY=VALUE", "a label of the host; can be repeated", .kind = OPTION_PAIRS,
      .at = offsetof(struct add_options, labels) },
};

static int write_host_request(const struct verb *v, const void *options, char **argv,
                              struct json_writer *w)
{
    const struct add_options *o = options;

    body_text(w, "name", argv[0]);
    body_text(w, "address", argv[1]);
    body_pairs(w, "labels", &o->labels);
    return 0;
}

static int run_hosts_add(const struct verb *v, int argc, char **argv)
{
    static struct add_options o;
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/hosts",
                                          .options = &o,
                                          .body = write_host_request,
                                          .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_hosts_add = {
    .name = "hosts add",
    .arguments = "NAME ADDRESS",
    .summary = "add a host",
    .text = "  sandboxer hosts add big ssh://builder@big.example.org --label gpu=yes\n",
    .options = add_options,
    .n_options = COUNT_OF(add_options),
    .run = run_hosts_add,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 2,
    .max_arguments = 2,
};

static int run_hosts_remove(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "DELETE",
                                          .before = "/v1/hosts/",
                                          .done = "removed" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_hosts_remove = {
    .name = "hosts remove",
    .arguments = "NAME",
    .summary = "remove a host",
    .text = "  sandboxer hosts remove big\n",
    .run = run_hosts_remove,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_HOST,
};
