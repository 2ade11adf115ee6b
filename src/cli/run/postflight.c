/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/postflight.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/own.h"
#include "cli/run/helper.h"
#include "cli/show.h"
#include "cli/state_dir.h"
#include "cli/run/untrusted.h"
#include "cli/verb.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

enum { TREE_MAX = 512 << 20, TEXT_MAX = 64 << 20 };

/* Limits of the output. */
#define FILE_BYTES_MAX "67108864"
#define ALL_BYTES_MAX  "268435456"
#define FILES_MAX      "10000"

static const struct json_limits limits = { .bytes = HELPER_OUT_MAX, .depth = 32 };

/* {"files": […], "deleted": […], "violations": […]} of a directory of the stage. */
static int list_output(const struct postflight *p, const char *dir, struct arena *a,
                       const struct json **ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(HELPER_OUT_MAX);
    char path[PATH_MAX], before[PATH_MAX];
    const char *const arguments[] = { "list",        path,      before, FILE_BYTES_MAX,
                                      ALL_BYTES_MAX, FILES_MAX, NULL };
    int r;

    if (snprintf(path, sizeof path, "%s/%s", p->stage, dir) >= (int)sizeof path ||
        snprintf(before, sizeof before, "%s/input", p->stage) >= (int)sizeof before)
        return err_set(e, ERR_TOO_BIG, "%s/%s: the path of the output has more than %zu bytes",
                       p->stage, dir, sizeof path - 1);
    r = helper_run_text(HELPER_SEAL, arguments, STR(""), &text, e);
    return r < 0 ? r : json_read(buf_str(&text), limits, a, ret, e);
}

/* Size limits are left to a hook that replaces the built-in step; violations that would be
 * dangerous at any destination are not. */
static bool is_limit(const struct json *violation)
{
    struct str rule = show_string(violation, "rule");

    return str_eq(rule, STR("size")) || str_eq(rule, STR("files")) || str_eq(rule, STR("bytes"));
}

/* Our own rules: none of the output leaves if some of it may not. */
static int judge_violations(const struct json *listed, bool limits_too, struct err *e)
{
    const struct json *v = show_at(listed, "violations");
    bool denied = false;

    if (!v)
        return err_set(e, ERR_BUG, "sandboxer-seal lists no violations");
    for (const struct json *one = json_first(v); one != json_end(v); one++) {
        if (!limits_too && is_limit(one))
            continue;
        denied = true;
        cli_report("output: " STR_FMT ": " STR_FMT " (" STR_FMT ")",
                   STR_ARG(show_string(one, "path")), STR_ARG(show_string(one, "reason")),
                   STR_ARG(show_string(one, "rule")));
    }
    if (denied)
        return err_set(e, ERR_DENIED, "the output does not leave: see above");
    return 0;
}

/* Whether a change is of a file of the output: then *ret is its path there. */
static bool is_of_output(const struct json *change, struct str *ret)
{
    const struct str top = STR(UNTRUSTED_OUTPUT_INSIDE "/");

    *ret = show_string(change, "path");
    if (!str_starts(*ret, top) || str_eq(show_string(change, "change"), STR("deleted")))
        return false;
    *ret = (struct str){ ret->p + top.n, ret->n - top.n };
    return true;
}

static int report_output_mismatch(const struct json *file, struct err *e)
{
    struct str path = show_string(file, "path");

    return err_set(e, ERR_DENIED, "the output is refused: %.*s differs from the sandbox's files",
                   (int)(path.n < 120 ? path.n : 120), path.p);
}

/* The collected output must match the writable layer: the two were read in different ways. Both
 * lists are sorted. */
static int compare_output_with_layer(const struct json *files, const struct json *changes,
                                     struct err *e)
{
    const struct json *f = json_first(files), *end = json_end(files);
    struct str path;

    for (const struct json *c = json_first(changes); c != json_end(changes); c++) {
        if (!is_of_output(c, &path))
            continue;
        for (; f != end && !str_eq(show_string(f, "path"), path); f++)
            if (str_eq(show_string(f, "change"), STR("added")))
                return report_output_mismatch(f, e);
        if (f == end || !str_eq(show_string(f, "sha256"), show_string(c, "sha256")))
            return report_output_mismatch(c, e);
        f++;
    }
    for (; f != end; f++)
        if (str_eq(show_string(f, "change"), STR("added")))
            return report_output_mismatch(f, e);
    return 0;
}

static int run_postflight_hook(const struct postflight *p, const struct json *listed,
                               const struct json *changes, struct arena *a, struct step_answer *ret,
                               struct err *e)
{
    AUTO(buf_done) struct buf question = BUF_INIT(HELPER_OUT_MAX);
    char path[PATH_MAX];
    struct json_writer w;
    int r;

    snprintf(path, sizeof path, "%s/output/output", p->stage);
    json_writer_init(&w, &question, JSON_COMPACT);
    json_begin_object(&w);
    json_field_str(&w, "step", STR("postflight"));
    json_field_text(&w, "directory", path);
    json_field_int(&w, "status", p->status);
    json_field_tree(&w, "files", show_at(listed, "files"));
    json_field_tree(&w, "deleted", show_at(listed, "deleted"));
    json_field_tree(&w, "violations", show_at(listed, "violations"));
    json_field_tree(&w, "changes", changes);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : step_take("postflight", p->options, buf_str(&question), a, ret, e);
}

static void write_step(struct json_writer *w, const char *key, const struct step_answer *answer)
{
    json_field_begin_object(w, key);
    json_field_str(w, "by", answer->by);
    if (answer->result) {
        json_field_tree(w, "result", answer->result);
    }
    json_end_object(w);
}

static int write_output_manifest(const struct postflight *p, const struct json *program,
                                 const struct json *listed, const struct json *changes,
                                 const struct step_answer *post, struct buf *out, struct err *e)
{
    char at[32] = "";
    time_t now = time(NULL);
    struct json_writer w;
    struct tm utc;

    if (gmtime_r(&now, &utc))
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_int(&w, "version", 1);
    json_field_cstr(&w, "made_at", at);
    json_field_begin_object(&w, "program");
    json_field_text(&w, "name", p->program);
    json_field_str(&w, "sha256", show_string(program, "sha256"));
    json_field_int(&w, "status", p->status);
    json_end_object(&w);
    write_step(&w, "preflight", p->preflight);
    write_step(&w, "postflight", post);
    json_field_tree(&w, "files", show_at(listed, "files"));
    json_field_tree(&w, "deleted", show_at(listed, "deleted"));
    json_field_tree(&w, "changes", changes);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int sign_output_manifest(struct str text, struct buf *out, struct err *e)
{
    AUTO_CLOSE int state = -1;
    char path[PATH_MAX];
    const char *const arguments[] = { "sign", path, NULL };
    int r = state_dir_path(path, sizeof path, e);

    if (r >= 0)
        r = state_dir_open(&state, e); /* made, if it is not there */
    return r < 0 ? r : helper_run_text(HELPER_SEAL, arguments, text, out, e);
}

int postflight_check(const struct postflight *p, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    const struct json *program, *listed, *changes, *first;
    struct step_answer answer = { 0 };
    int r = list_output(p, "program", &a, &program, e);

    if (r >= 0)
        r = list_output(p, "output/output", &a, &listed, e);
    if (r >= 0)
        r = json_read(p->changes, limits, &a, &changes, e);
    if (r >= 0)
        r = judge_violations(listed, false, e);
    if (r >= 0)
        r = compare_output_with_layer(show_at(listed, "files"), changes, e);
    if (r >= 0)
        r = run_postflight_hook(p, listed, changes, &a, &answer, e);
    if (r >= 0 && answer.built_in)
        r = judge_violations(listed, true, e);
    if (r < 0)
        return r;
    first = json_first(show_at(program, "files"));
    if (!first)
        return err_set(e, ERR_BUG, "the program is not in its stage");
    r = write_output_manifest(p, first, listed, changes, &answer, &text, e);
    return r < 0 ? r : sign_output_manifest(buf_str(&text), out, e);
}
