/* SPDX-License-Identifier: Apache-2.0 */
/* Git routes of the toolbox: run the git program of the sandbox, with the sandbox's rights and
 * network. Each verb is a short script; it gets the members of the request as variables and the
 * files as parameters. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/daytona/git_status.h"
#include "edge/daytona/internal.h"

enum { TEXT_MAX = 64 << 10, WORD_MAX = 4095 };

struct git_request {
    const char *path, *url, *branch, *commit, *name, *message, *author, *email, *remote, *mode,
        *target, *source, *key, *value, *scope, *user, *password, *host, *protocol, *initial;
    bool insecure, empty, bare, upstream, fetch, overwrite, staged, worktree;
    int64_t depth;
    struct json_strs files;
};

#define AT(member) JSON_AT(struct git_request, member)
#define WORD(name, member)                                                                         \
    {                                                                                              \
        name, JSON_KIND_STR, AT(member), .max = WORD_MAX                                           \
    }
#define FLAG(name, member)                                                                         \
    {                                                                                              \
        name, JSON_KIND_BOOL, AT(member)                                                           \
    }

static const struct json_field fields[] = {
    WORD("path", path),
    WORD("url", url),
    WORD("branch", branch),
    WORD("commit_id", commit),
    WORD("name", name),
    { "message", JSON_KIND_STR, AT(message), .max = TEXT_MAX },
    WORD("author", author),
    WORD("email", email),
    WORD("remote", remote),
    WORD("mode", mode),
    WORD("target", target),
    WORD("source", source),
    WORD("key", key),
    WORD("value", value),
    WORD("scope", scope),
    WORD("username", user),
    WORD("password", password),
    WORD("host", host),
    WORD("protocol", protocol),
    WORD("initial_branch", initial),
    FLAG("insecure_skip_tls", insecure),
    FLAG("allow_empty", empty),
    FLAG("bare", bare),
    FLAG("set_upstream", upstream),
    FLAG("fetch", fetch),
    FLAG("overwrite", overwrite),
    FLAG("staged", staged),
    FLAG("worktree", worktree),
    { "depth", JSON_KIND_INT, AT(depth), .min = 0, .max = 1 << 30 },
    { "files", JSON_KIND_STRS, AT(files), .max = DAYTONA_SCRIPT_ARGS },
};

/* --- errors, by git's messages --- */

static const struct {
    const char *said, *code;
    int status;
} failures[] = {
    { "git is not installed", "", 501 },
    { "not a git repository", "GIT_REPO_NOT_FOUND", 404 },
    { "cannot change to", "GIT_REPO_NOT_FOUND", 404 },
    { "Authentication failed", "GIT_AUTH_FAILED", 401 },
    { "could not read Username", "GIT_AUTH_FAILED", 401 },
    { "could not read Password", "GIT_AUTH_FAILED", 401 },
    { "CONFLICT", "GIT_MERGE_CONFLICT", 409 },
    { "would be overwritten", "GIT_DIRTY_WORKTREE", 409 },
    { "[rejected]", "GIT_PUSH_REJECTED", 409 },
    { "[remote rejected]", "GIT_REMOTE_REJECTED", 422 },
    { "already exists", "GIT_BRANCH_EXISTS", 409 },
    { "did not match any", "GIT_BRANCH_NOT_FOUND", 404 },
    { "invalid reference", "GIT_BRANCH_NOT_FOUND", 404 },
    { "Remote branch", "GIT_BRANCH_NOT_FOUND", 404 },
    { "branch '", "GIT_BRANCH_NOT_FOUND", 404 },
    { "unable to access", "GIT_TRANSPORT_FAILED", 502 },
    { "Could not read from remote", "GIT_TRANSPORT_FAILED", 502 },
    { "does not appear to be a git repository", "GIT_TRANSPORT_FAILED", 502 },
};

static void fail_git(struct exec *x)
{
    struct str said = buf_str(&x->out[1]);
    struct err e;

    (void)err_set(&e, ERR_INVALID, STR_FMT, (int)(said.n < 200 ? said.n : 200),
                  said.n ? said.p : "git failed");
    for (size_t i = 0; i < COUNT_OF(failures); i++)
        if (said.n && memmem(said.p, said.n, failures[i].said, strlen(failures[i].said))) {
            call_fail_with(x->call, failures[i].status, failures[i].code, "%s", e.msg);
            return;
        }
    call_fail_with(x->call, 400, "BAD_REQUEST", "%s",
                   said.n ? e.msg : "git failed without a message");
}

/* --- answers --- */

static struct str git_output(const void *exec)
{
    const struct exec *x = exec;

    return buf_str(&x->out[0]);
}

static void write_hash(struct json_writer *w, const void *x)
{
    struct str hash;

    str_cut(git_output(x), '\n', &hash);
    json_begin_object(w);
    json_field_lossy(w, "hash", hash);
    json_end_object(w);
}

static void write_git_status(struct json_writer *w, const void *x)
{
    git_status_write(w, git_output(x));
}

/* Output: the current branch, then all branches, one per line. */
static void write_branches(struct json_writer *w, const void *x)
{
    struct str line, rest = str_cut(git_output(x), '\n', &line);

    json_begin_object(w);
    json_field_lossy(w, "current", line);
    json_field_begin_array(w, "branches");
    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        json_put_lossy(w, line);
    }
    json_end_array(w);
    json_end_object(w);
}

/* Output: lines of "NAME TAB URL (fetch)", and the same for push. */
static void write_remotes(struct json_writer *w, const void *x)
{
    struct str line, rest = git_output(x), name, url;

    json_begin_object(w);
    json_field_begin_array(w, "remotes");
    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        if (!str_ends(line, STR(" (fetch)")))
            continue;
        url = str_cut(line, '\t', &name);
        json_begin_object(w);
        json_field_lossy(w, "name", name);
        json_field_lossy(w, "url", (struct str){ url.p, url.n - strlen(" (fetch)") });
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void write_value(struct json_writer *w, const void *x)
{
    struct str value = git_output(x);

    json_begin_object(w);
    if (value.n)
        json_field_lossy(w, "value",
                         (struct str){ value.p, value.n - (value.p[value.n - 1] == '\n') });
    json_end_object(w);
}

/* Output: records of "HASH\x1fAUTHOR\x1fEMAIL\x1fTIME\x1fMESSAGE", each terminated by NUL. */
static void write_history(struct json_writer *w, const void *x)
{
    static const char *const keys[] = { "hash", "author", "email", "timestamp" };
    struct str rest = git_output(x), record, field;

    json_begin_array(w);
    while (rest.n) {
        rest = str_cut(rest, '\0', &record);
        json_begin_object(w);
        for (size_t i = 0; i < COUNT_OF(keys); i++) {
            record = str_cut(record, '\x1f', &field);
            json_field_lossy(w, keys[i], field);
        }
        json_field_lossy(w, "message", record);
        json_end_object(w);
    }
    json_end_array(w);
}

/* --- the verbs --- */

struct git_verb {
    const char *needs; /* required members */
    const char *script;
    call_write_fn *write; /* the answer; NULL: an empty object */
};

#define SCOPE                                                                                      \
    "case ${g_scope:-global} in local) set -- -C \"$g_path\" config --local;; "                    \
    "system) set -- config --system;; *) set -- config --global;; esac; "

/* In the order of routes_daytona_git. */
static const struct git_verb verbs[] = {
    { "url path",
      "set -- ${g_depth:+--depth \"$g_depth\"} ${g_branch:+--branch \"$g_branch\"}; "
      "[ -z \"$g_insecure_skip_tls\" ] || set -- -c http.sslVerify=false \"$@\"; "
      "git clone -q \"$@\" -- \"$g_url\" \"$g_path\" || exit; "
      "[ -z \"$g_commit_id\" ] || git -C \"$g_path\" checkout -q \"$g_commit_id\" --",
      NULL },
    { "path",
      "git init -q ${g_bare:+--bare} ${g_initial_branch:+-b \"$g_initial_branch\"} -- "
      "\"$g_path\"",
      NULL },
    { "path", "git -C \"$g_path\" add -- \"$@\"", NULL },
    { "path message author email",
      "git -C \"$g_path\" -c user.name=\"$g_author\" -c user.email=\"$g_email\" commit -q "
      "${g_allow_empty:+--allow-empty} -m \"$g_message\" >&2 && git -C \"$g_path\" "
      "rev-parse "
      "HEAD",
      write_hash },
    { "path", "git -C \"$g_path\" status --porcelain=v2 --branch -z", write_git_status },
    { "path", "git -C \"$g_path\" log -n 1000 -z --format='%H%x1f%an%x1f%ae%x1f%aI%x1f%B'",
      write_history },
    { "path",
      "git -C \"$g_path\" branch --show-current && git -C \"$g_path\" for-each-ref "
      "--format='%(refname:short)' refs/heads",
      write_branches },
    { "path name", "git -C \"$g_path\" branch -- \"$g_name\"", NULL },
    { "path name", "git -C \"$g_path\" branch -q -D -- \"$g_name\"", NULL },
    { "path branch", "git -C \"$g_path\" checkout -q \"$g_branch\" --", NULL },
    { "path",
      "git -C \"$g_path\" push -q ${g_set_upstream:+-u} -- \"${g_remote:-origin}\" "
      "\"${g_branch:-HEAD}\"",
      NULL },
    { "path",
      "if [ -n \"$g_branch$g_remote\" ]; then set -- \"${g_remote:-origin}\" "
      "${g_branch:+\"$g_branch\"}; fi; git -C \"$g_path\" pull -q -- \"$@\"",
      NULL },
    { "path",
      "if [ $# -gt 0 ]; then git -C \"$g_path\" reset -q ${g_target:+\"$g_target\"} -- "
      "\"$@\"; else git -C \"$g_path\" reset -q ${g_mode:+--\"$g_mode\"} "
      "${g_target:+\"$g_target\"} --; fi",
      NULL },
    { "path",
      "git -C \"$g_path\" restore -q ${g_staged:+--staged} ${g_worktree:+--worktree} "
      "${g_source:+--source=\"$g_source\"} -- \"$@\"",
      NULL },
    { "path", "git -C \"$g_path\" remote -v", write_remotes },
    { "path name url",
      "[ -z \"$g_overwrite\" ] || git -C \"$g_path\" remote remove -- \"$g_name\" "
      "2>/dev/null; git -C \"$g_path\" remote add ${g_fetch:+-f} -- \"$g_name\" "
      "\"$g_url\"",
      NULL },
    { "key", SCOPE "git \"$@\" --get \"$g_key\" || [ $? -eq 1 ]", write_value },
    { "key value", SCOPE "git \"$@\" \"$g_key\" \"$g_value\"", NULL },
    { "name email", SCOPE "git \"$@\" user.name \"$g_name\" && git \"$@\" user.email \"$g_email\"",
      NULL },
    { "username password",
      "git config --global credential.helper store && "
      "printf 'protocol=%s\\nhost=%s\\nusername=%s\\npassword=%s\\n' "
      "\"${g_protocol:-https}\" \"${g_host:-github.com}\" \"$g_username\" "
      "\"$g_password\" | git credential approve",
      NULL },
};

static const struct git_verb *find_git_verb(const struct call *c)
{
    return &verbs[c->route - routes_daytona_git];
}

static void on_git_ended(struct exec *x, const struct backend_end *end)
{
    const struct git_verb *v = find_git_verb(x->call);

    if (end->how != BACKEND_EXITED || end->status || x->truncated)
        fail_git(x);
    else if (v->write)
        call_answer(x->call, 200, v->write, x);
    else
        daytona_answer_done(x->call);
}

static const struct exec_encoder git_encoder = { .started = daytona_begin_output,
                                                 .output = daytona_collect_output,
                                                 .ended = on_git_ended,
                                                 .failed = daytona_not_started };

/* --- a request --- */

/* Git gets the credentials of the request, and never prompts. */
#define PRELUDE                                                                                    \
    "command -v git >/dev/null || { echo 'git is not installed in this sandbox' >&2; exit 1; }; "  \
    "export LC_ALL=C GIT_TERMINAL_PROMPT=0; if [ -n \"$g_username\" ]; then export "               \
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=credential.helper GIT_CONFIG_VALUE_0='!f() { echo "       \
    "\"username=$g_username\"; echo \"password=$g_password\"; }; f'; fi; "

/* The value of a field as text; NULL if it is absent or false. */
static const char *git_field_value(struct call *c, const struct git_request *q,
                                   const struct json_field *f)
{
    const char *at = (const char *)q + f->offset;
    char number[24];
    int64_t n;

    switch (f->kind) {
    case JSON_KIND_STR:
        return *(const char *const *)at;
    case JSON_KIND_BOOL:
        return *(const bool *)at ? "1" : NULL;
    case JSON_KIND_INT:
        memcpy(&n, at, sizeof n);
        snprintf(number, sizeof number, "%lld", (long long)n);
        return n ? arena_dup(&c->own, str_from(number)) : NULL;
    default:
        return NULL;
    }
}

/* The members of the request as variables g_NAME. */
static struct json_map variables_of(struct call *c, const struct git_request *q)
{
    struct json_pair *all = call_alloc(c, COUNT_OF(fields), sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const char *value = git_field_value(c, q, &fields[i]);

        if (value && value[0])
            all[n++] = (struct json_pair){ background_tag(c, "g_", fields[i].name), value };
    }
    return (struct json_map){ all, n };
}

static bool has_git_variable(const struct json_map *given, struct str name)
{
    for (size_t i = 0; i < given->n; i++)
        if (str_eq(str_from(given->p[i].key + strlen("g_")), name))
            return true;
    return false;
}

/* Whether git would interpret the value as an option; free texts are exempt. */
static bool is_git_option(const struct json_pair *p)
{
    static const char *const texts[] = { "g_message", "g_value", "g_password" };

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (strcmp(p->key, texts[i]) == 0)
            return false;
    return p->value[0] == '-';
}

/* Returns false after it has answered the call. */
static bool check_git_request(struct call *c, const struct git_verb *v,
                              const struct json_map *given)
{
    struct str rest = str_from(v->needs), word;

    while (rest.n) {
        rest = str_cut(rest, ' ', &word);
        if (has_git_variable(given, word))
            continue;
        return call_fail_with(c, 400, "BAD_REQUEST", STR_FMT ": required", STR_ARG(word));
    }
    for (size_t i = 0; i < given->n; i++)
        if (is_git_option(&given->p[i])) {
            return call_fail_with(c, 400, "BAD_REQUEST", "%s: must not begin with '-'",
                                  given->p[i].key + strlen("g_"));
        }
    return true;
}

/* Reads the members of a GET from its query. Returns false after it has answered the call. */
static bool read_git_query(struct call *c, struct git_request *q)
{
    const struct {
        const char *name, **ret;
    } all[] = { { "path", &q->path }, { "key", &q->key }, { "scope", &q->scope } };
    struct str text;
    int r;

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        r = call_query(c, all[i].name, &text);
        if (r < 0)
            return false;
        if (r > 0)
            *all[i].ret = arena_dup(&c->own, text);
    }
    return true;
}

static void run_git_verb(struct call *c)
{
    const struct git_verb *v = find_git_verb(c);
    struct buf script AUTO(buf_done) = BUF_INIT(16 << 10);
    struct git_request q = { 0 };
    struct json_map given;

    if (c->json ? !daytona_read_body(c, fields, COUNT_OF(fields), &q) : !read_git_query(c, &q))
        return;
    if (q.path && !(q.path = daytona_path(c, str_from(q.path))))
        return;
    given = variables_of(c, &q);
    if (!check_git_request(c, v, &given))
        return;
    buf_addf(&script, "%s%s", PRELUDE, v->script);
    daytona_run_script(c, "/", arena_dup(&c->own, buf_str(&script)), q.files, &given, &git_encoder);
}

#define ASK(path) DAYTONA_ROUTE(H1_GET, VERB_EXEC, DAYTONA_INSIDE "/git/" path, 0, run_git_verb)
#define DO(method, path)                                                                           \
    DAYTONA_ROUTE(method, VERB_EXEC, DAYTONA_INSIDE "/git/" path, ROUTE_JSON | ROUTE_LONG,         \
                  run_git_verb)

const struct route routes_daytona_git[] = {
    DO(H1_POST, "clone"),
    DO(H1_POST, "init"),
    DO(H1_POST, "add"),
    DO(H1_POST, "commit"),
    ASK("status"),
    ASK("history"),
    ASK("branches"),
    DO(H1_POST, "branches"),
    DO(H1_DELETE, "branches"),
    DO(H1_POST, "checkout"),
    DO(H1_POST, "push"),
    DO(H1_POST, "pull"),
    DO(H1_POST, "reset"),
    DO(H1_POST, "restore"),
    ASK("remotes"),
    DO(H1_POST, "remotes"),
    ASK("config"),
    DO(H1_POST, "config"),
    DO(H1_POST, "config/user"),
    DO(H1_POST, "credentials"),
    { .path = NULL },
};
static_assert(COUNT_OF(routes_daytona_git) == COUNT_OF(verbs) + 1, "a verb for each route");
