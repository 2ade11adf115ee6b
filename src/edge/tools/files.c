/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_read and sandbox_write. */
#include "edge/core/file_take.h"
#include "edge/tools/arguments.h"
#include "edge/tools/run.h"
#include "lib/crypto/encode.h"
#include "backends/records.h"

enum { CHUNK = 64 << 10, FRAMED_MAX = MCP_FILE_MAX + (1 << 20) };

struct file_call {
    struct mcp_run run, dir_run;
    struct tool_file in;
    struct buf data; /* read data, or data to write */
    uint64_t bytes;  /* size of the file's contents in it */
    struct str uri;  /* of the resource that is read; p == NULL: a tool call */
    bool too_big;
};

static void release_file_call(void *state)
{
    struct file_call *f = state;

    mcp_run_done(&f->run);
    mcp_run_done(&f->dir_run);
    buf_done(&f->data);
}

static void cancel_file_call(struct mcp_request *r)
{
    struct file_call *f = r->state;

    mcp_run_cancel(&f->run);
    mcp_run_cancel(&f->dir_run);
}

static struct file_call *new_file_call(struct mcp_request *r)
{
    struct file_call *f = mcp_state(r, sizeof *f, release_file_call);

    r->on_cancel = cancel_file_call;
    return f;
}

bool mcp_path_has_dots(const char *path)
{
    struct str rest = str_from(path), part;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        if (str_eq(part, STR("..")))
            return true;
    }
    return false;
}

static bool check_tool_path(struct mcp_request *r, const char *path)
{
    if (path[0] == '/' && !mcp_path_has_dots(path))
        return true;
    mcp_tool_fail(r, "path: '%.200s' is not absolute, or contains '..'. Use an absolute path.",
                  path);
    return false;
}

static void start_file_operation(struct mcp_run *run, struct mcp_request *r, struct sandbox *s,
                                 enum start_what what, const char *path, struct str input,
                                 const struct mcp_run_events *events)
{
    const char **paths = arena_array(&r->arena, 2, sizeof *paths);
    const struct process_start begin = {
        .what = what, .flags = what == START_WRITE ? START_STDIN : 0, .cwd = "/", .argv = paths
    };

    paths[0] = path;
    mcp_run_start(run, r, s, &begin, input, false, events);
}

/* --- reading --- */

static bool on_file_data(struct mcp_run *run, int channel, struct str data)
{
    struct file_call *f = container_of(run, struct file_call, run);

    if (channel == 1 && !f->too_big)
        f->too_big = buf_add(&f->data, data) < 0;
    return true;
}

bool mcp_is_text(struct str s)
{
    return str_is_utf8(s) && (!s.n || !memchr(s.p, 0, s.n)) &&
           (s.n <= MCP_DENSE_MIN || json_text_size(s) <= 2 * s.n);
}

static void answer_content(struct file_call *f, struct mcp_request *r)
{
    AUTO(buf_done) struct buf text = BUF_INIT(2 * MCP_READ_MAX);
    struct tool_content out = { .path = f->in.path,
                                .content = buf_str(&f->data),
                                .encoding = f->in.encoding,
                                .bytes = f->data.n };

    if (f->in.encoding == ENCODING_TEXT && !mcp_is_text(buf_str(&f->data))) {
        mcp_tool_fail(r,
                      "%.200s is not UTF-8 text, or full of control characters. Read it with "
                      "encoding base64.",
                      f->in.path);
        return;
    }
    if (f->in.encoding == ENCODING_BASE64) {
        crypto_base64(buf_str(&f->data), &text);
        out.content = buf_str(&text);
    }
    mcp_tool_answer(r, &out);
}

static void on_tool_read_ended(struct mcp_run *run, const struct backend_end *end)
{
    struct file_call *f = container_of(run, struct file_call, run);
    struct mcp_request *r = run->request;

    if (f->uri.p && f->too_big)
        mcp_fail_uri(r, f->uri,
                     "%.120s has more than %zu bytes; read a part of it with sandbox_exec",
                     f->in.path, f->data.max);
    else if (f->uri.p && run->failure.code)
        mcp_fail_uri(r, f->uri, "%s", run->failure.msg);
    else if (run->failure.code)
        mcp_fail_err(r, "The file could not be read", &run->failure);
    else if (f->too_big)
        mcp_tool_fail(
            r,
            "%.200s has more than %d bytes. Read a part of it with sandbox_exec: head -c, "
            "tail -c, sed -n.",
            f->in.path, MCP_READ_MAX);
    else if (!f->uri.p)
        answer_content(f, r);
    else if (mcp_is_text(buf_str(&f->data)))
        mcp_read_text(r, f->uri, "text/plain", buf_str(&f->data));
    else
        mcp_read_bytes(r, f->uri, "application/octet-stream", buf_str(&f->data));
}

static void on_tool_read_failed(struct mcp_run *run, const struct err *e)
{
    struct file_call *f = container_of(run, struct file_call, run);

    if (f->uri.p)
        mcp_fail_uri(run->request, f->uri, "%s", e->msg);
    else
        mcp_fail_err(run->request, "The file could not be read", e);
}

static const struct mcp_run_events reading = { .output = on_file_data,
                                               .ended = on_tool_read_ended,
                                               .failed = on_tool_read_failed };

void mcp_tool_read(struct mcp_request *r, const struct json *v)
{
    struct file_call *f = new_file_call(r);
    struct sandbox *s;

    if (!mcp_arguments(r, v, &f->in) || !check_tool_path(r, f->in.path) ||
        !(s = mcp_sandbox(r, f->in.sandbox_id)))
        return;
    buf_init(&f->data, MCP_READ_MAX);
    start_file_operation(&f->run, r, s, START_READ, f->in.path, STR(""), &reading);
    sandbox_unref(s);
}

void mcp_read_file(struct mcp_request *r, struct sandbox *s, const char *path, struct str uri)
{
    struct file_call *f = new_file_call(r);

    f->uri = uri;
    if (mcp_path_has_dots(path)) {
        mcp_fail_uri(r, uri, "the path contains '..'; use an absolute path without it");
        return;
    }
    buf_init(&f->data, MCP_READ_MAX);
    start_file_operation(&f->run, r, s, START_READ, path, STR(""), &reading);
}

/* --- writing --- */

static void on_tool_write_ended(struct mcp_run *run, const struct backend_end *end)
{
    struct file_call *f = container_of(run, struct file_call, run);
    const struct tool_content out = { .path = f->in.path, .bytes = f->bytes };

    if (run->failure.code)
        mcp_fail_err(run->request, "The file could not be written", &run->failure);
    else
        mcp_tool_answer(run->request, &out);
}

static void on_tool_write_failed(struct mcp_run *run, const struct err *e)
{
    mcp_fail_err(run->request, "The file could not be written", e);
}

static const struct mcp_run_events writing = { .output = on_file_data,
                                               .ended = on_tool_write_ended,
                                               .failed = on_tool_write_failed };

/* Continues with the write, whose error also covers a parent directory that could not be made. */
static void on_parent_made(struct mcp_run *run, const struct backend_end *end)
{
    struct file_call *f = container_of(run, struct file_call, dir_run);
    struct sandbox *s = mcp_sandbox(run->request, f->in.sandbox_id);

    if (!s)
        return;
    start_file_operation(&f->run, run->request, s, START_WRITE, f->in.path, buf_str(&f->data),
                         &writing);
    sandbox_unref(s);
}

static bool ignore_parent_output(struct mcp_run *run, int channel, struct str data)
{
    return true;
}

static const struct mcp_run_events making = { .output = ignore_parent_output,
                                              .ended = on_parent_made,
                                              .failed = on_tool_write_failed };

/* Frames the contents in chunks, of which the last is empty, so that a truncated write leaves the
 * file unchanged. */
static void frame_content(struct file_call *f, struct str data)
{
    char head[BACKEND_CHUNK_HEAD];
    size_t n;

    f->bytes = data.n;
    buf_init(&f->data, FRAMED_MAX);
    do {
        n = data.n < CHUNK ? data.n : CHUNK;
        backend_chunk_head((uint32_t)n, head);
        buf_add(&f->data, (struct str){ head, sizeof head });
        buf_add(&f->data, (struct str){ data.p, n });
        data = (struct str){ data.p + n, data.n - n };
    } while (n);
}

static bool check_tool_content(struct file_call *f, struct mcp_request *r)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(MCP_FILE_MAX);
    struct str content = str_from(f->in.content);
    struct err e;

    if (f->in.encoding == ENCODING_BASE64) {
        if (crypto_unbase64(content, &plain, &e) < 0) {
            mcp_tool_fail(r,
                          "content: %s. With encoding base64 it must be padded base64 without line "
                          "breaks.",
                          e.msg);
            return false;
        }
        content = buf_str(&plain);
    }
    if (content.n > MCP_FILE_MAX) {
        mcp_tool_fail(r,
                      "content: more than %d bytes. Write it in parts and join them with "
                      "sandbox_exec.",
                      MCP_FILE_MAX);
        return false;
    }
    frame_content(f, content);
    return true;
}

void mcp_tool_write(struct mcp_request *r, const struct json *v)
{
    struct file_call *f = new_file_call(r);
    const char *parent;
    struct sandbox *s;

    if (!mcp_arguments(r, v, &f->in) || !check_tool_path(r, f->in.path) ||
        !check_tool_content(f, r) || !(s = mcp_sandbox(r, f->in.sandbox_id)))
        return;
    parent = file_parent(&r->arena, f->in.path);
    if (strcmp(parent, "/") == 0)
        start_file_operation(&f->run, r, s, START_WRITE, f->in.path, buf_str(&f->data), &writing);
    else
        start_file_operation(&f->dir_run, r, s, START_MKDIR, parent, STR(""), &making);
    sandbox_unref(s);
}
