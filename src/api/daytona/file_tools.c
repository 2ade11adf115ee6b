/* What Daytona's clients have done with files by programs inside: search, replace, permissions. */
#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/inside.h"

enum { FILES_MAX = DAYTONA_SCRIPT_ARGS - 2, TEXT_MAX = 128 << 10 };

/* The parameters of a script, from the query: paths, or words as they are. */
struct words {
    const char *p[4];
    size_t n;
};

/* False: it is answered. */
static bool add_path(struct call *c, const char *name, struct words *w)
{
    return (w->p[w->n++] = daytona_query_path(c, name));
}

static bool add_word(struct call *c, const char *name, bool needed, struct words *w)
{
    struct str text = { NULL, 0 };
    char why[64];

    if (call_query(c, name, &text) < 0)
        return false;
    if (needed && !text.n) {
        snprintf(why, sizeof why, "%.32s: is needed", name);
        call_fail_with(c, 400, "BAD_REQUEST", why);
        return false;
    }
    w->p[w->n++] = text.n ? arena_dup(&c->own, text) : "";
    return true;
}

static void run(struct call *c, const char *script, const struct words *w,
                const struct exec_face *face)
{
    const char **args = arena_array(&c->own, w->n, sizeof *args);

    if (!args)
        abort();
    memcpy(args, w->p, w->n * sizeof *args);
    daytona_script(c, "/", script, (struct json_strs){ args, w->n }, NULL, face);
}

/* A script says what it could not do, and as what: "404 …", "403 …". */
static void fail_script(struct exec *x)
{
    struct str rest, status, text = str_trim(buf_str(&x->out[1]));
    uint64_t n;
    struct err e;

    rest = str_cut(text, ' ', &status);
    if (!rest.p || !str_to_u64(status, &n) || n < 400 || n > 499) {
        n = 500;
        rest = text;
    }
    (void)err_set(&e, ERR_INVALID, "%.200s", rest.n ? rest.p : "the program failed");
    call_fail_with(x->call, (int)n, "", e.msg);
}

static bool is_good(struct exec *x, const struct ext_end *end)
{
    if (x->truncated) {
        call_fail_with(x->call, 413, "", "there is more than fits into an answer");
        return false;
    }
    if (end->how == EXT_EXITED && end->status == 0)
        return true;
    buf_add_c(&x->out[1], '\0');
    fail_script(x);
    return false;
}

#define FACE(answer)                                                                               \
    {                                                                                              \
        .started = daytona_begin, .output = daytona_collect, .ended = (answer),                    \
        .failed = daytona_not_started                                                              \
    }
#define MUST_BE_THERE                                                                              \
    "[ -e \"$1\" ] || { echo \"404 $1: no such file or directory\" >&2; exit 1; }; "

/* --- search: names that match --- */

static void write_names(struct json_writer *w, const void *what)
{
    const struct exec *x = what;
    struct str rest = buf_str(&x->out[0]), name;

    json_begin_object(w);
    json_key(w, STR("files"));
    json_begin_array(w);
    while (rest.n) {
        rest = str_cut(rest, '\0', &name);
        json_put_lossy(w, name);
    }
    json_end_array(w);
    json_end_object(w);
}

static void answer_names(struct exec *x, const struct ext_end *end)
{
    if (is_good(x, end))
        call_answer(x->call, 200, write_names, x);
}

static const struct exec_face names_face = FACE(answer_names);

static void search(struct call *c)
{
    static const char script[] =
        MUST_BE_THERE "find \"$1\" -name \"$2\" -print0 2>/dev/null; exit 0";
    struct words w = { .n = 0 };

    if (add_path(c, "path", &w) && add_word(c, "pattern", true, &w))
        run(c, script, &w, &names_face);
}

/* --- find: lines that hold a text --- */

/* "FILE NUL LINE : TEXT", as grep has it with -Z. */
static void write_match(struct json_writer *w, struct str line)
{
    struct str file, number;
    uint64_t n;

    line = str_cut(line, '\0', &file);
    line = str_cut(line, ':', &number);
    if (!str_to_u64(number, &n))
        return;
    json_begin_object(w);
    put_bytes(w, "file", file);
    put_number(w, "line", (int64_t)n);
    put_bytes(w, "content", line);
    json_end_object(w);
}

static void write_matches(struct json_writer *w, const void *what)
{
    const struct exec *x = what;
    struct str rest = buf_str(&x->out[0]), line;

    json_begin_array(w);
    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        write_match(w, line);
    }
    json_end_array(w);
}

static void answer_matches(struct exec *x, const struct ext_end *end)
{
    if (is_good(x, end))
        call_answer(x->call, 200, write_matches, x);
}

static const struct exec_face matches_face = FACE(answer_matches);

static void find(struct call *c)
{
    static const char script[] =
        MUST_BE_THERE "grep -rnIFHZ -e \"$2\" -- \"$1\" 2>/dev/null; [ $? -lt 2 ]";
    struct words w = { .n = 0 };

    if (add_path(c, "path", &w) && add_word(c, "pattern", true, &w))
        run(c, script, &w, &matches_face);
}

/* --- replace --- */

struct replacement {
    struct json_strs files;
    const char *pattern, *value;
};

#define AT(member) JSON_AT(struct replacement, member)

static const struct json_field replace_fields[] = {
    { "files", JSON_KIND_STRS, AT(files), .required = true, .max = FILES_MAX },
    { "pattern", JSON_KIND_STR, AT(pattern), .required = true, .min = 1, .max = TEXT_MAX - 1 },
    { "newValue", JSON_KIND_STR, AT(value), .required = true, .max = TEXT_MAX - 1 },
};

/* A line for each: "ok", or why not. */
static void write_replaced(struct json_writer *w, const void *what)
{
    const struct exec *x = what;
    struct str rest = buf_str(&x->out[0]), line, file;

    json_begin_array(w);
    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        line = str_cut(line, '\0', &file);
        json_begin_object(w);
        put_bytes(w, "file", file);
        put_flag(w, "success", str_eq(line, STR("ok")));
        if (!str_eq(line, STR("ok")))
            put_bytes(w, "error", line);
        json_end_object(w);
    }
    json_end_array(w);
}

static void answer_replaced(struct exec *x, const struct ext_end *end)
{
    if (is_good(x, end))
        call_answer(x->call, 200, write_replaced, x);
}

static const struct exec_face replaced_face = FACE(answer_replaced);

/* Whole files, so that a text may have line breaks; by whichever of the two is there. */
#define WITH_PERL "perl -0777 -i -pe 's/\\Q$ENV{OLD}\\E/$ENV{NEW}/g' \"$f\""
#define WITH_PYTHON                                                                                \
    "python3 -c 'import os,sys; p=sys.argv[1]; b=open(p,\"rb\").read(); "                          \
    "n=b.replace(os.environb[b\"OLD\"], os.environb[b\"NEW\"]); "                                  \
    "n==b or open(p,\"wb\").write(n)' \"$f\""

static void replace(struct call *c)
{
    static const char script[] =
        "w=python; command -v perl >/dev/null && w=perl; "
        "for f; do if [ ! -f \"$f\" ]; then e='no such file'; "
        "elif [ ! -w \"$f\" ]; then e='permission denied'; "
        "elif { if [ $w = perl ]; then " WITH_PERL "; else " WITH_PYTHON "; fi; } 2>/dev/null; "
        "then e=ok; else e='it could not be changed'; fi; printf '%s\\0%s\\n' \"$f\" \"$e\"; done";
    struct replacement q = { 0 };
    struct json_pair *env = arena_array(&c->own, 2, sizeof *env);
    struct json_map both = { env, 2 };
    const char **files;

    if (!daytona_read(c, replace_fields, COUNT_OF(replace_fields), &q))
        return;
    files = arena_array(&c->own, q.files.n + 1, sizeof *files);
    if (!files || !env)
        abort();
    for (size_t i = 0; i < q.files.n; i++)
        if (!(files[i] = daytona_path(c, str_from(q.files.p[i]))))
            return;
    env[0] = (struct json_pair){ "OLD", q.pattern };
    env[1] = (struct json_pair){ "NEW", q.value };
    daytona_script(c, "/", script, (struct json_strs){ files, q.files.n }, &both, &replaced_face);
}

/* --- permissions --- */

static void answer_nothing(struct exec *x, const struct ext_end *end)
{
    if (is_good(x, end))
        daytona_answer_done(x->call);
}

static const struct exec_face nothing_face = FACE(answer_nothing);

static void permissions(struct call *c)
{
    static const char script[] = MUST_BE_THERE
        "{ [ -z \"$2\" ] || chmod -- \"$2\" \"$1\"; } && "
        "{ [ -z \"$3\" ] || chown -- \"$3\" \"$1\"; } && "
        "{ [ -z \"$4\" ] || chgrp -- \"$4\" \"$1\"; } || { echo '403 it is not permitted' >&2; "
        "exit 1; }";
    struct words w = { .n = 0 };

    if (add_path(c, "path", &w) && add_word(c, "mode", false, &w) &&
        add_word(c, "owner", false, &w) && add_word(c, "group", false, &w))
        run(c, script, &w, &nothing_face);
}

#define ROW(method, path, flags, handler)                                                          \
    {                                                                                              \
        method, VERB_FILES, DAYTONA_INSIDE "/files" path, DAYTONA_LIVE | (flags), handler,         \
            .face = &toolbox_files_face                                                            \
    }

const struct route routes_daytona_file_tools[] = {
    ROW(H1_GET, "/search", 0, search),
    ROW(H1_GET, "/find", 0, find),
    ROW(H1_POST, "/replace", ROUTE_JSON, replace),
    ROW(H1_POST, "/permissions", 0, permissions),
    { .path = NULL },
};
