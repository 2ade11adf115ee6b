/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/progress.h"
#include "cli/tar_rename.h"
#include "base/io.h"
#include "cli/run/image_import.h"
#include "lib/proc/spawn.h"
#include "lib/tar/pack.h"

/* --- The child that packs or unpacks --- */

/* The helper's report, written in one piece when it ends. */
struct copy_result {
    int r;
    struct err e;
    struct tree_report report;
};

struct helper {
    pid_t pid;
    int data;   /* our end of the tar stream */
    int report; /* where its outcome comes from */
};

#define HELPER_NONE ((struct helper){ .data = -1, .report = -1 })

static void helper_done(struct helper *h)
{
    int status;

    drop_fd(&h->data);
    drop_fd(&h->report);
    if (h->pid)
        spawn_wait(h->pid, &status, NULL);
    h->pid = 0;
}

typedef int helper_fn(void *job, int data, struct tree_report *ret, struct err *e);

/* `reads`: the child reads the stream that we write. */
static int helper_start(struct helper *h, helper_fn *work, void *job, bool reads, struct err *e)
{
    struct copy_result o = { 0 };
    int data[2], report[2];

    if (pipe2(data, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    if (pipe2(report, O_CLOEXEC) < 0) {
        close(data[0]);
        close(data[1]);
        return err_sys(e, "making a pipe");
    }
    fflush(NULL);
    h->pid = fork();
    if (h->pid == 0) {
        close(data[reads]);
        close(report[0]);
        signal(SIGPIPE, SIG_IGN);
        o.r = work(job, data[!reads], &o.report, &o.e);
        _exit(write(report[1], &o, sizeof o) == (ssize_t)sizeof o ? 0 : 1);
    }
    close(data[!reads]);
    close(report[1]);
    h->data = data[reads];
    h->report = report[0];
    return h->pid < 0 ? err_sys(e, "starting a helper") : 0;
}

/* After the stream has ended. */
static int helper_outcome(struct helper *h, struct tree_report *ret, struct err *e)
{
    struct copy_result o;
    ssize_t n;

    do
        n = read(h->report, &o, sizeof o);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof o)
        return err_set(e, ERR_BUG, "the helper process that reads or writes the files died");
    if (o.r < 0)
        *e = o.e;
    else
        *ret = o.report;
    return o.r;
}

/* --- Into a sandbox --- */

struct packing {
    int root;
    char name[TREE_NAME_MAX + 1]; /* below root; "": root itself */
    const char *top;
};

static int pack_copy_source(void *job, int data, struct tree_report *ret, struct err *e)
{
    const struct packing *p = job;
    struct tree_pack_options o = { .as = p->top, .set_owner = true };

    return tree_pack(data, p->root, p->name, &o, ret, e);
}

/* A directory is packed from inside, so that it may be reached through links; anything else from
 * its directory, so that a link is copied as one. */
static int open_copy_source(const char *path, struct packing *p, bool *ret_is_dir, struct err *e)
{
    char dir[TREE_PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat st;
    int n;

    if (lstat(path, &st) < 0)
        return err_sys(e, "%s", path);
    *ret_is_dir = S_ISDIR(st.st_mode);
    n = *ret_is_dir ? snprintf(dir, sizeof dir, "%s", path)
                    : snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + 1) : 1,
                               slash ? path : ".");
    if (n >= (int)sizeof dir ||
        !str_copy(str_from(*ret_is_dir ? "" : name), p->name, sizeof p->name))
        return err_set(e, ERR_TOO_BIG, "%s: the path has more than %d bytes", path,
                       TREE_PATH_MAX - 1);
    p->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->root < 0 ? err_sys(e, "%s", path) : 0;
}

/* Requests the path without a trailing "/.", which only copy_place() interprets. */
static void stat_remote_path(struct api_call *c, const struct copy_end *at)
{
    struct str path = str_from(at->path);
    char named[TREE_PATH_MAX];

    while (path.n > 2 && path.p[path.n - 2] == '/' && path.p[path.n - 1] == '.')
        path.n -= 2;
    api_call_query(c, "path", str_copy(path, named, sizeof named) ? named : at->path);
}

/* The kind of file at a path in the sandbox. Other errors are reported when the path is used. */
static enum copy_kind remote_kind(const struct copy *copy, const struct copy_end *at)
{
    AUTO(api_call_done) struct api_call c;
    struct str kind;

    api_call_init(&c, copy->verb, copy->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/files/stat", at->sandbox);
    stat_remote_path(&c, at);
    api_call_query(&c, "user", copy->user);
    if (!api_call_answers(&c, NULL))
        return COPY_MISSING;
    kind = show_string(c.answer, "kind");
    return str_eq(kind, STR("dir")) ? COPY_DIR : COPY_FILE;
}

static int more_from_fd(void *user, char *out, size_t cap, struct err *e)
{
    ssize_t n;

    do
        n = read(*(int *)user, out, cap);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading the files to copy");
    progress_moved((uint64_t)n);
    return (int)n;
}

/* A child that failed must not look like the end of the archive. */
static int more_from_helper(void *user, char *out, size_t cap, struct err *e)
{
    struct helper *h = user;
    struct tree_report report;
    int n = more_from_fd(&h->data, out, cap, e);

    return n ? n : helper_outcome(h, &report, e) < 0 ? -ERR_SYS : 0;
}

static int send_tar(const struct copy *copy, const char *sandbox, const char *dir,
                    http_client_more_fn *more, void *user)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, copy->verb, copy->common, "PUT");
    api_call_path(&c, "/v1/sandboxes/%s/files/tar", sandbox);
    api_call_query(&c, "path", dir);
    api_call_query(&c, "user", copy->user);
    api_call_field(&c, "Content-Type", "application/x-tar");
    c.more = more;
    c.more_user = user;
    c.doing = "copying";
    return api_call_run(&c);
}

int copy_in_stream(const struct copy *c, const struct copy_end *to)
{
    int fd = STDIN_FILENO;

    if (isatty(STDIN_FILENO) == 1)
        return verb_misused(c->verb, "'-' reads a tar archive from stdin, which is a terminal");
    return send_tar(c, to->sandbox, to->path, more_from_fd, &fd);
}

int copy_in(const struct copy *c, const char *source, const struct copy_end *to, bool several)
{
    AUTO(helper_done) struct helper h = HELPER_NONE;
    struct packing p = { .root = -1 };
    struct copy_source from = { .path = source };
    struct copy_target target = { .path = to->path, .several = several };
    struct copy_place place;
    struct err e;

    if (open_copy_source(source, &p, &from.is_dir, &e) < 0)
        return verb_failed(c->verb, "%s", e.msg);
    target.kind = remote_kind(c, to);
    if (copy_place(&from, &target, &place, &e) < 0) {
        drop_fd(&p.root);
        return verb_misused(c->verb, "%s", e.msg);
    }
    p.top = place.top;
    if (helper_start(&h, pack_copy_source, &p, false, &e) < 0) {
        drop_fd(&p.root);
        return verb_failed(c->verb, "%s", e.msg);
    }
    drop_fd(&p.root);
    return send_tar(c, to->sandbox, place.dir, more_from_helper, &h);
}

/* --- Out of a sandbox --- */

/* Root unpacks as the owner of the directory: the confined child could not write there otherwise,
 * and that owner could replace anything in it anyway. */
static int become_directory_owner(int dir, struct err *e)
{
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (fstat(dir, &st) < 0)
        return err_sys(e, "reading the attributes of the target directory");
    if (st.st_uid == 0)
        return 0;
    if (setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
        setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)
        return err_sys(e, "becoming the owner of the target directory");
    return 0;
}

static int unpack_copy(void *job, int data, struct tree_report *ret, struct err *e)
{
    const struct tree_unpack_options o = { .devices = TREE_SKIP,
                                           .fifos = TREE_SKIP,
                                           .keep_root = true };
    int dir = *(int *)job, r = become_directory_owner(dir, e);

    signal(SIGPIPE, SIG_DFL);
    return r < 0 ? r : image_import(data, dir, &o, ret, e);
}

/* The answer's body as the tar reader wants it. */
struct body_source {
    struct api_call *call;
    struct str piece;
    struct err e;
};

static ssize_t read_body_piece(void *ctx, void *p, size_t n)
{
    struct body_source *b = ctx;

    if (b->piece.n == 0) {
        int r = http_client_read(&b->call->client, &b->piece, &b->e);

        if (r <= 0) {
            b->piece = (struct str){ NULL, 0 };
            errno = EIO;
            return r;
        }
        progress_moved(b->piece.n);
    }
    n = n < b->piece.n ? n : b->piece.n;
    memcpy(p, b->piece.p, n);
    b->piece = (struct str){ b->piece.p + n, b->piece.n - n };
    return (ssize_t)n;
}

static int get_tar(struct api_call *c, const struct copy *copy, const struct copy_end *from)
{
    api_call_path(c, "/v1/sandboxes/%s/files/tar", from->sandbox);
    stat_remote_path(c, from);
    api_call_query(c, "user", copy->user);
    c->doing = "copying";
    return api_call_open(c);
}

int copy_out_stream(const struct copy *copy, const struct copy_end *from)
{
    AUTO(api_call_done) struct api_call c;
    struct str piece;
    struct err e;
    int status;

    api_call_init(&c, copy->verb, copy->common, "GET");
    if (isatty(STDOUT_FILENO) == 1)
        return verb_misused(copy->verb, "'-' writes a tar archive to stdout, which is a terminal");
    status = get_tar(&c, copy, from);
    while (status == 0 && api_call_next(&c, &piece, &status) > 0) {
        progress_moved(piece.n);
        if (write_all(STDOUT_FILENO, piece, &e) < 0)
            status = verb_failed(copy->verb, "%s", e.msg);
    }
    return status;
}

/* The stream from the call through the renaming to the child. The first failure is the cause of the
 * others. */
static int run_stream(struct api_call *c, struct helper *h, const char *top,
                      struct tree_report *report, struct err *e)
{
    struct body_source body = { .call = c };
    struct err unpacking;
    int r = tar_rename(read_body_piece, &body, h->data, top, e), other;

    drop_fd(&h->data);
    other = helper_outcome(h, report, &unpacking);
    if (body.e.code) {
        *e = body.e;
        return -(int)body.e.code;
    }
    if (other < 0 && (r >= 0 || e->sys == EPIPE)) {
        *e = unpacking;
        return other;
    }
    return r;
}

static int find_copy_target(const struct copy *c, const struct copy_end *from, const char *target,
                            bool several, struct copy_place *ret)
{
    struct copy_source source = { .path = from->path, .is_dir = remote_kind(c, from) == COPY_DIR };
    struct copy_target t = { .path = target, .kind = COPY_MISSING, .several = several };
    struct stat st;
    struct err e;

    if (stat(target, &st) == 0)
        t.kind = S_ISDIR(st.st_mode) ? COPY_DIR : COPY_FILE;
    return copy_place(&source, &t, ret, &e) < 0 ? verb_misused(c->verb, "%s", e.msg) : 0;
}

int copy_out(const struct copy *copy, const struct copy_end *from, const char *target, bool several)
{
    AUTO(api_call_done) struct api_call c;
    AUTO(helper_done) struct helper h = HELPER_NONE;
    AUTO_CLOSE int dir = -1;
    struct tree_report report = { 0 };
    unsigned long long left;
    struct copy_place place;
    struct err e;
    int status = find_copy_target(copy, from, target, several, &place);

    api_call_init(&c, copy->verb, copy->common, "GET");
    if (status)
        return status;
    dir = open(place.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return verb_failed(copy->verb, "%s: %s", place.dir, strerror(errno));
    status = get_tar(&c, copy, from);
    if (status)
        return status;
    signal(SIGPIPE, SIG_IGN); /* the child reports better why it stopped */
    if (helper_start(&h, unpack_copy, &dir, true, &e) < 0 ||
        run_stream(&c, &h, place.top, &report, &e) < 0)
        return verb_failed(copy->verb, "%s", e.msg);
    progress_end();
    left = report.devices_skipped + report.fifos_skipped;
    if (left)
        cli_report("%s: note: %llu special file%s left out (devices, pipes)", copy->verb->name,
                   left, left == 1 ? " was" : "s were");
    return 0;
}
