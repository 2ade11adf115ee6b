/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("NAME", "name"),
    COLUMN("LABELS", "labels"),
};
static const struct answer_kind kind = KIND("", "sandbox_id", columns);

/* "KEY=VALUE" sets a label, "KEY-" removes it. */
static struct str read_label_key(const char *word, bool *ret_removes)
{
    struct str key, value = str_cut(str_from(word), '=', &key);

    *ret_removes = !value.p;
    if (!value.p)
        key.n -= str_ends(key, STR("-"));
    return key;
}

static int check_label_words(const struct verb *v, char **words)
{
    for (; *words; words++) {
        bool removes;
        struct str key = read_label_key(*words, &removes);

        if (!key.n || (removes && key.n == strlen(*words)))
            return verb_misused(v, "'%.100s' is neither KEY=VALUE nor KEY- (which removes a label)",
                                *words);
    }
    return 0;
}

static bool is_label_named(char **words, struct str key)
{
    bool removes;

    while (*words && !str_eq(read_label_key(*words, &removes), key))
        words++;
    return *words != NULL;
}

static void write_labels(struct json_writer *w, const struct json *old, char **words)
{
    json_begin_object(w);
    json_field_begin_object(w, "labels");
    for (const struct json *l = old ? json_first(old) : NULL; l && l != json_end(old); l++)
        if (!is_label_named(words, l->key)) {
            json_key(w, l->key);
            json_put_str(w, l->s);
        }
    for (; *words; words++) {
        bool removes;
        struct str key = read_label_key(*words, &removes);

        if (removes || is_label_named(words + 1, key))
            continue;
        json_key(w, key);
        json_put_str(w, str_from(strchr(*words, '=') + 1));
    }
    json_end_object(w);
    json_end_object(w);
}

static int run_label(struct api_call *lookup, void *options, int argc, char **argv)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, lookup->verb, lookup->common, "PUT");
    status = check_label_words(lookup->verb, argv + 1);
    if (status)
        return status;
    api_call_path(lookup, "/v1/sandboxes/%s", argv[0]);
    status = api_call_run(lookup);
    if (status)
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/labels", argv[0]);
    write_labels(api_call_json(&c), show_at(lookup->answer, "labels"), argv + 1);
    status = api_call_run(&c);
    return status ? status : answer_record(&c, c.answer, &kind);
}

const struct verb verb_label = {
    .name = "label",
    ARGUMENTS("ID KEY=VALUE|KEY-…", 2, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "set and remove labels of a sandbox",
    .text = "KEY=VALUE sets a label, KEY- removes it; the others stay. Labels that the token of a\n"
            "caller has, and those of the daemon, cannot be changed.\n"
            "\n"
            "  sandboxer label sbx_4k7 team=web reviewed-\n",
    .run = run_label,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
