/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/image_import.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/confine.h"
#include "lib/proc/caps.h"
#include "lib/proc/spawn.h"
#include "lib/tar/decompress.h"

/* The report of a child, in one write. */
struct import_report {
    int r;
    struct err e;
    struct tree_report report;
};

struct import_child {
    pid_t pid; /* 0: none, or it was waited for */
    int fd;    /* where its word comes from */
};

#define CHILD_NONE ((struct import_child){ .fd = -1 })

static void child_end(struct import_child *c)
{
    int status;

    drop_fd(&c->fd);
    if (c->pid <= 0)
        return;
    kill(c->pid, SIGKILL);
    (void)spawn_wait(c->pid, &status, NULL);
    c->pid = 0;
}

/* The archive may have taken the child over, so its report is validated like any input. */
static void check_import_report(struct import_report *w)
{
    w->e.msg[sizeof w->e.msg - 1] = '\0';
    for (char *p = w->e.msg; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = '?';
    if (w->r > 0 || w->r <= -(int)ERR_CODE_COUNT_)
        w->r = -(int)ERR_BUG;
    w->e.code = (enum err_code) - w->r;
}

/* 1 and its word, or 0 if it closed the pipe without one. */
static int child_listen(const struct import_child *c, struct import_report *ret, struct err *e)
{
    size_t n = 0;

    while (n < sizeof *ret) {
        ssize_t got = read(c->fd, (char *)ret + n, sizeof *ret - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading from a child");
        if (got == 0)
            return 0;
        n += (size_t)got;
    }
    check_import_report(ret);
    return 1;
}

/* The child: its descriptors, and then what it is for. It does not return. */
enum { WORD_FD = 3, ARCHIVE_FD, DEST_FD };

static void __attribute__((noreturn))
run_unpack_child(const int *fds, int n, const struct confine *c,
                 const struct tree_unpack_options *o)
{
    struct import_report w = { 0 };

    if (confine_fds(fds, n, NULL) < 0)
        _exit(1);
    w.r = confine_enter(c, &w.e);
    if (w.r >= 0)
        w.r = tree_unpack(ARCHIVE_FD, DEST_FD, o, &w.report, &w.e);
    _exit(write(WORD_FD, &w, sizeof w) == (ssize_t)sizeof w ? 0 : 1);
}

/* Forks: 1 in the parent, 0 in the child, which gets the writing end of the pipe for its word. */
static int child_fork(struct import_child *c, int *ret_word, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    from = fds[0];
    to = fds[1];
    c->pid = fork();
    if (c->pid < 0)
        return err_sys(e, "forking");
    if (c->pid == 0) {
        *ret_word = take_fd(&to);
        return 0;
    }
    c->fd = take_fd(&from);
    return 1;
}

static int start_unpacker(struct import_child *c, int archive_fd, int dest_dir,
                          const struct tree_unpack_options *o, struct err *e)
{
    const uint64_t keeping =
        CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FSETID);
    struct confine limits = { .parent = getpid(),
                              .dir = DEST_FD,
                              .caps = o->owners == TREE_OWNERS_KEEP ? keeping : 0 };
    int word, r = child_fork(c, &word, e);

    if (__builtin_add_overflow(o->limits.bytes ? o->limits.bytes : TREE_BYTES_DEFAULT,
                               TREE_SPOOL_MAX, &limits.file_max))
        limits.file_max = UINT64_MAX;
    if (r == 0)
        run_unpack_child((const int[]){ -1, -1, -1, word, archive_fd, dest_dir }, DEST_FD + 1,
                         &limits, o);
    return r;
}

/* Its word, and -ERR_BUG if it died without one. */
static int finish_unpacker(struct import_child *c, struct import_report *ret, struct err *e)
{
    int status, said = child_listen(c, ret, e), r = said;

    if (said >= 0) {
        r = spawn_wait(c->pid, &status, e);
        c->pid = 0;
    }
    if (r < 0)
        return r;
    if (said == 0)
        return err_set(e, ERR_BUG, "the process that unpacks the archive died (%s %d)",
                       WIFSIGNALED(status) ? "signal" : "exit status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (ret->r < 0 && e)
        *e = ret->e;
    return ret->r;
}

/* An archive that looks broken because its decompression failed is reported as a failed
 * decompression. */
static int finish_image_import(struct import_child *unpacker, struct decompress *d,
                               struct tree_report *ret, struct err *e)
{
    struct err other = { 0 };
    struct import_report w;
    int r = finish_unpacker(unpacker, &w, e), damaged = 0;

    if (r >= 0 || r == -ERR_INVALID)
        damaged = decompress_finish(d, &other);
    if (damaged < 0) {
        if (e)
            *e = other;
        return damaged;
    }
    if (r >= 0)
        *ret = w.report;
    return r;
}

int image_import(int archive_fd, int dest_dir, const struct tree_unpack_options *o,
                 struct tree_report *ret, struct err *e)
{
    AUTO(child_end) struct import_child unpacker = CHILD_NONE;
    AUTO(decompress_end) struct decompress d = DECOMPRESS_NONE;
    int r = decompress_start(&d, archive_fd, e);

    if (r >= 0)
        r = start_unpacker(&unpacker, d.plain >= 0 ? d.plain : archive_fd, dest_dir, o, e);
    drop_fd(&d.plain); /* so that the decompressor notices the end of the unpacker */
    return r < 0 ? r : finish_image_import(&unpacker, &d, ret, e);
}
