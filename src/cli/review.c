/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/review.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/output.h"
#include "cli/review_diff.h"
#include "cli/terminal.h"

/* A sync takes at most 256 accepted paths of 64 KiB. */
enum { BATCH_PATHS = 200, BATCH_BYTES = 48 << 10, SHOWN_BYTES = 16 << 10 };

enum change_group {
    CHANGE_PLAIN,
    CHANGE_CONFLICT, /* overwrites the file here */
    CHANGE_HELD,
    CHANGE_STUCK, /* cannot be brought back */
    CHANGE_GROUP_COUNT_,
};

/* The actions of a sync without effect, in the order of the counts. */
static const struct {
    const char *action;
    enum change_group group;
} actions[] = {
    { "created", CHANGE_PLAIN },     { "replaced", CHANGE_PLAIN }, { "deleted", CHANGE_PLAIN },
    { "conflict", CHANGE_CONFLICT }, { "sensitive", CHANGE_HELD }, { "refused", CHANGE_STUCK },
    { "failed", CHANGE_STUCK },
};

struct reviewer {
    const struct review *review;
    const char *dir; /* here, of which the workspace is a copy */
    struct arena *arena;
    const char **chosen[2]; /* paths, and paths that overwrite what is here */
    size_t n_chosen[2];
    const char **left; /* paths that stay inside */
    size_t n_left;
    bool all; /* the rest of the plain changes is brought back without a question */
    bool end; /* the rest of all changes stays inside */
};

int review_fetch(const struct review *r, struct api_call *c)
{
    struct json_writer *w;

    api_call_init(c, r->verb, r->common, "POST");
    api_call_path(c, "/v1/sandboxes/%s/sync", r->sandbox);
    w = api_call_json(c);
    json_begin_object(w);
    json_field_bool(w, "dry_run", true);
    json_end_object(w);
    c->doing = "looking for changes";
    return api_call_run(c);
}

static unsigned long long count_action(const struct json *answer, const char *action)
{
    char path[32];

    snprintf(path, sizeof path, "counts.%s", action);
    return show_count(answer, path);
}

unsigned long long review_count(const struct json *answer, unsigned long long *ret_held)
{
    unsigned long long n = 0, held = 0;

    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        unsigned long long more = count_action(answer, actions[i].action);

        n += more;
        held += actions[i].group == CHANGE_PLAIN ? 0 : more;
    }
    if (ret_held)
        *ret_held = held;
    return n;
}

static enum change_group group_of_change(const struct json *row)
{
    struct str action = show_string(row, "action");

    for (size_t i = 0; i < COUNT_OF(actions); i++)
        if (str_eq(action, str_from(actions[i].action)))
            return actions[i].group;
    return CHANGE_STUCK;
}

/* The change and why it needs attention, free of anything that a terminal could act on. */
static void print_change(const struct json *row)
{
    AUTO(buf_done) struct buf line = BUF_INIT(SHOWN_BYTES), clean = BUF_INIT(4 * SHOWN_BYTES);
    struct str reason = show_string(row, "reason");

    buf_addf(&line, STR_FMT "  " STR_FMT "%s" STR_FMT, STR_ARG(show_string(row, "action")),
             STR_ARG(show_string(row, "path")), reason.n ? "  (" : "", STR_ARG(reason));
    if (reason.n)
        buf_add_c(&line, ')');
    (void)output_clean(buf_str(&line), &clean);
    dprintf(STDERR_FILENO, STR_FMT "\n", STR_ARG(buf_str(&clean)));
}

static bool is_beneath(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* A file cannot be brought back without its new directory, and a directory that was deleted not
 * removed with a file in it. */
static bool depends_on_left(const struct reviewer *v, const char *path)
{
    for (size_t i = 0; i < v->n_left; i++)
        if (is_beneath(path, v->left[i]) || is_beneath(v->left[i], path))
            return true;
    return false;
}

static void print_review_help(enum change_group group)
{
    dprintf(STDERR_FILENO,
            "y: bring it back%s\nn: leave it inside\nd: show the differences\n"
            "a: bring it back, and all other changes that are neither conflicts nor held back\n"
            "q: leave it and all that follow inside\n",
            group == CHANGE_CONFLICT ? ", and overwrite the file here" : "");
}

/* Whether the change is chosen. Without an answer it is not, nor are the following ones. */
static bool ask_about_change(struct reviewer *v, const struct json *row, enum change_group group)
{
    const char *path = show_string(row, "path").p;
    bool gone = str_eq(show_string(row, "action"), STR("deleted"));

    for (;;) {
        switch (
            terminal_choose(group == CHANGE_CONFLICT ? "  overwrite the file here? [y,n,d,a,q,?]"
                            : group == CHANGE_HELD   ? "  bring it back all the same? [y,n,d,a,q,?]"
                                                     : "  bring it back? [y,n,d,a,q,?]")) {
        case 'a':
            v->all = true;
            return true;
        case 'y':
            return true;
        case 'n':
            return false;
        case 'd':
            review_diff(v->review, v->dir, path, gone);
            break;
        case 'q':
        case 0:
            v->end = true;
            return false;
        default:
            print_review_help(group);
        }
    }
}

static void decide_change(struct reviewer *v, const struct json *row)
{
    enum change_group group = group_of_change(row);
    const char *path = show_string(row, "path").p;
    bool chosen = false;

    if (!v->end && group != CHANGE_STUCK && !depends_on_left(v, path)) {
        chosen = v->all && group == CHANGE_PLAIN;
        if (!chosen) {
            print_change(row);
            chosen = ask_about_change(v, row, group);
        }
    } else if (!v->end && group == CHANGE_STUCK) {
        print_change(row);
    }
    if (chosen)
        v->chosen[group == CHANGE_CONFLICT][v->n_chosen[group == CHANGE_CONFLICT]++] = path;
    else
        v->left[v->n_left++] = path;
}

static bool make_choices(struct reviewer *v, size_t n)
{
    v->chosen[0] = arena_array(v->arena, n + 1, sizeof *v->chosen[0]);
    v->chosen[1] = arena_array(v->arena, n + 1, sizeof *v->chosen[1]);
    v->left = arena_array(v->arena, n + 1, sizeof *v->left);
    return v->chosen[0] && v->chosen[1] && v->left;
}

/* Writes a batch of paths; the number of them. */
static size_t write_batch(struct json_writer *w, const char *const *paths, size_t n)
{
    size_t bytes = 0, at = 0;

    json_field_begin_array(w, "accept");
    for (; at < n && at < BATCH_PATHS && bytes < BATCH_BYTES; at++) {
        bytes += strlen(paths[at]) + 1;
        json_put_str(w, str_from(paths[at]));
    }
    json_end_array(w);
    return at;
}

static int sync_batch(const struct review *r, const char *const *paths, size_t n, bool force,
                      size_t *ret_taken)
{
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    unsigned long long held;
    int status;

    api_call_init(&c, r->verb, r->common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/sync", r->sandbox);
    w = api_call_json(&c);
    json_begin_object(w);
    json_field_bool(w, "only_accepted", true);
    json_field_bool(w, "force", force);
    *ret_taken = write_batch(w, paths, n);
    json_end_object(w);
    c.doing = "copying changes back";
    status = api_call_run(&c);
    if (status == 0)
        status = answer_list(&c, c.answer, &kind_workspace_change);
    (void)review_count(c.answer ? c.answer : &(struct json){ 0 }, &held);
    return status == 0 && held ? EXIT_CONFLICT : status;
}

static int sync_chosen(const struct reviewer *v)
{
    int status = 0;

    for (int force = 0; force < 2; force++)
        for (size_t at = 0, n; at < v->n_chosen[force]; at += n) {
            int r = sync_batch(v->review, v->chosen[force] + at, v->n_chosen[force] - at,
                               force == 1, &n);

            if (r && r != EXIT_CONFLICT)
                return r;
            status = r ? r : status;
        }
    return status;
}

/* The directory here, from the sandbox's record. */
static int find_review_dir(struct reviewer *v, struct api_call *c)
{
    struct str dir;
    int status;

    api_call_path(c, "/v1/sandboxes/%s", v->review->sandbox);
    status = api_call_run(c);
    dir = status ? STR("") : show_string(c->answer, "inputs.repo");
    v->dir = dir.n ? dir.p : "/";
    return status;
}

int review_interactively(const struct review *r, unsigned long long *ret_left)
{
    AUTO(api_call_done) struct api_call c, box;
    struct reviewer v = { .review = r, .arena = &c.arena };
    const struct json *rows;
    int status = review_fetch(r, &c);

    *ret_left = 0;
    api_call_init(&box, r->verb, r->common, "GET");
    if (status == 0)
        status = find_review_dir(&v, &box);
    if (status)
        return status;
    rows = answer_rows(c.answer, &kind_workspace_change);
    if (!make_choices(&v, (size_t)(json_end(rows) - json_first(rows))))
        return verb_failed(r->verb, "the list of changes needs more memory than is allowed");
    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        decide_change(&v, row);
    *ret_left = review_count(c.answer, NULL) - v.n_chosen[0] - v.n_chosen[1];
    return sync_chosen(&v);
}
