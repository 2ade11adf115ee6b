/* SPDX-License-Identifier: Apache-2.0 */
/* File searches of the toolbox: files whose name matches, lines that contain a text. The daemon
 * compares what PID 1's file operations list and read: no program of the sandbox runs, so a caller
 * with the right to read files cannot start programs. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge/daytona/internal.h"
#include "edge/core/file_walk.h"
#include "base/clock.h"
#include "base/own.h"
#include "domain/policy/glob.h"

enum {
    DEPTH_MAX = 128,
    ENTRIES_MAX = 500000,
    PIECE = 64 << 10,
    LINE_MAX = 1 << 20,       /* a file with a longer line counts as binary */
    HITS_MAX = 16 << 20,      /* bytes of lines of one file that match */
    READ_BYTES_MAX = 1 << 28, /* of all files together */
    SEARCH_S = 60,
    READ_S = 10, /* per file: a file of procfs may never end */
};

#define NAMES "/search"

struct file_found {
    const char *path;
    struct file_found *next;
};

struct file_search {
    struct call *call;
    struct file_walk walk;
    const char *root;
    const struct glob *glob; /* pattern of names; NULL: searches contents for … */
    struct str wanted;       /* … this text */
    int64_t deadline;
    struct buf text; /* the answer */
    struct json_writer writer;
    struct file_found *files, **last; /* to be read */
    /* the current file */
    const char *argv[2];
    struct run_op op;
    struct loop_fd output;
    int out;
    bool ended, skipped, over;
    struct buf lines; /* received bytes that are not split into lines yet */
    struct buf hits;  /* struct hit and the line, repeated */
    int64_t number;   /* of the last line */
    uint64_t bytes;   /* read so far, of all files */
};

struct hit {
    int64_t number;
    size_t n;
};

static void close_search_output(void *state)
{
    struct file_search *s = state;

    loop_fd_stop(&s->output);
    drop_fd(&s->out);
}

/* The current operation ends when its output is closed. */
static void on_search_client_gone(struct call *c)
{
    struct file_search *s = c->state;

    s->over = true;
    close_search_output(s);
}

static void fail_search(struct file_search *s, const struct err *e)
{
    s->over = true;
    close_search_output(s);
    call_fail(s->call, e);
}

static int check_search_time(const struct file_search *s, struct err *e)
{
    if (clock_mono() < s->deadline)
        return 0;
    return err_set(
        e, ERR_TIMEOUT,
        "the search took longer than %d s; search a smaller directory, or run a search program",
        SEARCH_S);
}

/* --- names --- */

static void add_matching_name(struct file_search *s, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (glob_match(s->glob, str_from(slash && slash[1] ? slash + 1 : path)))
        json_put_lossy(&s->writer, str_from(path));
}

static void answer_search(struct file_search *s)
{
    struct err e;

    json_end_array(&s->writer);
    if (s->glob)
        json_end_object(&s->writer);
    if (json_writer_finish(&s->writer, &e) < 0) {
        fail_search(s, &e);
        return;
    }
    s->over = true;
    call_answer_bytes(s->call, 200, "application/json", buf_str(&s->text));
}

/* --- lines --- */

static bool match_file_line(struct file_search *s, struct str line)
{
    const struct hit h = { ++s->number, line.n };

    if (!line.n || !memmem(line.p, line.n, s->wanted.p, s->wanted.n))
        return true;
    return buf_add(&s->hits, (struct str){ (const char *)&h, sizeof h }) >= 0 &&
           buf_add(&s->hits, line) >= 0;
}

/* Splits the received bytes into lines. Returns false if the file is binary or too many lines
 * match. `all`: the last line is complete. */
static bool cut_lines(struct file_search *s, bool all)
{
    struct str rest = buf_str(&s->lines), line;
    size_t used = 0;

    while (rest.p && rest.n && (all || memchr(rest.p, '\n', rest.n))) {
        rest = str_cut(rest, '\n', &line);
        if (!match_file_line(s, line))
            return false;
        used += line.n + (rest.p ? 1 : 0);
    }
    buf_drop(&s->lines, used);
    return true;
}

static void write_hits(struct file_search *s, const char *path)
{
    struct str rest = buf_str(&s->hits);
    struct json_writer *w = &s->writer;

    while (rest.n) {
        struct hit h;

        memcpy(&h, rest.p, sizeof h);
        json_begin_object(w);
        json_field_text(w, "file", path);
        json_field_int(w, "line", h.number);
        json_field_lossy(w, "content", (struct str){ rest.p + sizeof h, h.n });
        json_end_object(w);
        rest = (struct str){ rest.p + sizeof h + h.n, rest.n - sizeof h - h.n };
    }
}

static void read_next_file(struct file_search *s);

static void finish_file(struct file_search *s)
{
    if (s->over || !s->ended || s->out >= 0)
        return;
    if (!s->skipped && cut_lines(s, true))
        write_hits(s, s->argv[0]);
    read_next_file(s);
}

static void skip_file(struct file_search *s)
{
    s->skipped = true;
    close_search_output(s);
}

static void scan_file_piece(struct file_search *s, struct str data)
{
    struct err e;

    s->bytes += data.n;
    if (s->bytes > READ_BYTES_MAX) {
        (void)err_set(
            &e, ERR_TOO_BIG,
            "the files exceed %d bytes; search a smaller directory, or run a search program",
            READ_BYTES_MAX);
        fail_search(s, &e);
    } else if (memchr(data.p, 0, data.n) || buf_add(&s->lines, data) < 0 || !cut_lines(s, false)) {
        skip_file(s);
    }
}

static void on_file_output(struct loop_fd *l, unsigned events)
{
    static char room[PIECE];
    struct file_search *s = container_of(l, struct file_search, output);
    struct call *c = call_ref(s->call);
    ssize_t n = read(s->out, room, sizeof room);

    if (n > 0)
        scan_file_piece(s, (struct str){ room, (size_t)n });
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_search_output(s);
    finish_file(s);
    call_unref(c);
}

static void on_file_started(struct run_op *op, int r, const struct err *e)
{
    struct file_search *s = container_of(op, struct file_search, op);
    struct call *c = s->call;

    if (r < 0) { /* if the sandbox ended, the next file fails as well */
        s->ended = s->skipped = true;
        finish_file(s);
        call_unref(c);
        return;
    }
    drop_fd(&op->process.stdio[0]);
    s->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (s->over)
        close_search_output(s);
    else
        loop_fd_start(c->api->loop, &s->output, s->out, LOOP_READ, on_file_output, NULL);
}

/* An unreadable file counts as empty. */
static void on_file_ended(struct run_op *op, const struct backend_end *end)
{
    struct file_search *s = container_of(op, struct file_search, op);
    struct call *c = s->call;
    struct err e;

    s->ended = true;
    file_failure(end, &e);
    if (e.code)
        skip_file(s);
    if (end->how == BACKEND_LOST && !s->over)
        fail_search(s, &e);
    finish_file(s);
    call_unref(c); /* the operation's */
}

static const struct run_op_events read_events = { .started = on_file_started,
                                                  .ended = on_file_ended };

static void read_next_file(struct file_search *s)
{
    const struct process_start start = { .what = START_READ,
                                         .user = DAYTONA_USER,
                                         .cwd = "/",
                                         .argv = s->argv,
                                         .timeout_ns = READ_S * NS_PER_S };
    struct file_found *f = s->files;
    struct err e;

    if (!f) {
        answer_search(s);
        return;
    }
    if (check_search_time(s, &e) < 0) {
        fail_search(s, &e);
        return;
    }
    s->files = f->next;
    s->argv[0] = f->path;
    s->ended = s->skipped = false;
    s->number = 0;
    buf_clear(&s->lines);
    buf_clear(&s->hits);
    s->op = (struct run_op){ .events = &read_events, .actor = &s->call->caller.actor };
    call_ref(s->call);
    sandbox_run(s->call->sandbox, &start, &s->op);
}

static bool add_searched_file(struct file_search *s, const char *path)
{
    struct file_found *f = arena_alloc(&s->call->arena, sizeof *f);
    const char *kept = f ? arena_dup(&s->call->arena, str_from(path)) : NULL;

    if (!kept)
        return false;
    *f = (struct file_found){ .path = kept };
    *s->last = f;
    s->last = &f->next;
    return true;
}

/* --- the tree --- */

static bool on_tree_entry(struct file_walk *w, const char *path, const struct backend_entry *v)
{
    struct file_search *s = container_of(w, struct file_search, walk);

    if (s->glob)
        add_matching_name(s, path);
    else if (S_ISREG(v->mode))
        return add_searched_file(s, path);
    return true;
}

/* If the root is a file, searches only that file. */
static void on_tree_listed(struct file_walk *w, const struct err *e)
{
    struct file_search *s = container_of(w, struct file_search, walk);
    bool is_file = e && e->sys == ENOTDIR && (s->glob || add_searched_file(s, s->root));
    struct err late;

    if (!e && check_search_time(s, &late) < 0)
        e = &late;
    if (e && !is_file)
        fail_search(s, e);
    else if (s->glob)
        answer_search(s);
    else
        read_next_file(s);
}

static int read_pattern(struct call *c, struct file_search *s, bool is_name)
{
    struct str text = { NULL, 0 };
    struct err e;

    if (call_query(c, "pattern", &text) < 0)
        return -1;
    if (!text.n) {
        call_fail_with(c, 400, "BAD_REQUEST", "pattern: required");
        return -1;
    }
    s->wanted = text; /* on the call's arena, or part of its query */
    if (is_name && glob_compile(text, GLOB_PLAIN, '/', &c->arena, &s->glob, &e) < 0) {
        (void)err_wrap(&e, -1, "pattern");
        call_fail_with(c, 400, "BAD_REQUEST", "%s", e.msg);
        return -1;
    }
    return 0;
}

/* Searches names on the route NAMES, else contents. */
static void start_file_search(struct call *c)
{
    bool is_name = str_ends(str_from(c->route->path), STR(NAMES));
    const char *root = daytona_query_path(c, "path");
    struct file_search *s;

    if (!root)
        return;
    s = call_state(c, sizeof *s, close_search_output);
    s->call = c;
    s->out = -1;
    s->last = &s->files;
    s->root = root;
    s->deadline = clock_mono() + SEARCH_S * NS_PER_S;
    call_own_buf(c, &s->text, CALL_ANSWER_MAX);
    call_own_buf(c, &s->lines, LINE_MAX);
    call_own_buf(c, &s->hits, HITS_MAX);
    c->on_gone = on_search_client_gone;
    if (read_pattern(c, s, is_name) < 0)
        return;
    json_writer_init(&s->writer, &s->text, JSON_COMPACT);
    if (is_name) {
        json_begin_object(&s->writer);
        json_key(&s->writer, STR("files"));
    }
    json_begin_array(&s->writer);
    if (is_name)
        add_matching_name(s, root);
    s->walk = (struct file_walk){ .user = DAYTONA_USER,
                                  .deadline = s->deadline,
                                  .most = ENTRIES_MAX,
                                  .entry = on_tree_entry,
                                  .done = on_tree_listed };
    file_walk_start(&s->walk, c, root, DEPTH_MAX);
}

#define ROW(path, handler)                                                                         \
    DAYTONA_ROUTE(H1_GET, VERB_FILES, DAYTONA_INSIDE "/files" path, 0, handler)

const struct route routes_daytona_file_search[] = {
    ROW(NAMES, start_file_search),
    ROW("/find", start_file_search),
    { .path = NULL },
};
