/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/decompress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "lib/proc/confine.h"
#include "lib/proc/spawn.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"

enum { MAGIC_MAX = 6, PEEK_PAUSE_MS = 5 };

#define MEMORY_MAX (UINT64_C(1) << 30) /* usual archives need 64 MiB */

static const struct format {
    const char *program;
    struct str magic;
    char *const argv[4];
} formats[] = {
    { "gzip", STR("\x1f\x8b"), { (char[]){ "gzip" }, (char[]){ "-dc" }, NULL } },
    { "xz",
      STR("\xfd"
          "7zXZ\0"),
      { (char[]){ "xz" }, (char[]){ "-dc" }, (char[]){ "-T1" }, NULL } },
    { "zstd", STR("\x28\xb5\x2f\xfd"), { (char[]){ "zstd" }, (char[]){ "-dc" }, NULL } },
};

static char *const environment[] = { (char[]){ "LC_ALL=C" }, NULL };

static int make_archive_pipe(int *ret_from, int *ret_to)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    *ret_from = fds[0];
    *ret_to = fds[1];
    return 0;
}

/* Copies the first bytes of a pipe without consuming them. Waits until n bytes have arrived, or the
 * writer has closed its end. */
static ssize_t peek_pipe(int fd, char *head, size_t n)
{
    for (;;) {
        AUTO_CLOSE int from = -1, to = -1;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t got;

        if (make_archive_pipe(&from, &to) < 0)
            return -1;
        got = tee(fd, to, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (size_t)got == n || poll(&p, 1, 0) < 0 || (p.revents & POLLHUP))
            return got <= 0 ? got : read(from, head, (size_t)got);
        nanosleep(&(struct timespec){ .tv_nsec = PEEK_PAUSE_MS * NS_PER_MS }, NULL);
    }
}

/* Detects the format by the bytes at an offset, or of a pipe if `at` is negative. NULL: not
 * compressed. */
static int detect_format(int fd, off_t at, size_t most, const struct format **ret, struct err *e)
{
    char head[MAGIC_MAX];
    ssize_t n = at < 0 ? peek_pipe(fd, head, sizeof head)
                       : pread(fd, head, most < sizeof head ? most : sizeof head, at);

    if (n < 0 && at < 0 && errno == EINVAL)
        return err_set(e, ERR_UNSUPPORTED, "the archive is neither a file nor a pipe");
    if (n < 0)
        return err_sys(e, "reading the archive");
    *ret = NULL;
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (str_starts((struct str){ head, (size_t)n }, formats[i].magic))
            *ret = &formats[i];
    return 0;
}

static int find_program(const struct format *f, char *out, size_t cap, struct err *e)
{
    static const char *const places[] = { "/usr/bin", "/bin" };

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        snprintf(out, cap, "%s/%s", places[i], f->program);
        if (access(out, X_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "the archive is compressed with %s, but there is no %s in /usr/bin or /bin",
                   f->program, f->program);
}

/* Descriptors of the program: input, output, /dev/null, and a close-on-exec pipe for a struct err
 * if it cannot start. End of file on that pipe means that it has started. */
enum { WORD_FD = 3 };

static void __attribute__((noreturn))
run_program(const struct format *f, const int *fds, const char *program, const struct confine *c)
{
    struct err e = { 0 };

    if (confine_fds(fds, WORD_FD + 1, NULL) < 0)
        _exit(1);
    if (confine_enter(c, &e) >= 0) {
        fcntl(WORD_FD, F_SETFD, FD_CLOEXEC);
        execve(program, f->argv, environment);
        (void)err_sys(&e, "starting %s", program);
    }
    _exit(write(WORD_FD, &e, sizeof e) == (ssize_t)sizeof e ? 1 : 2);
}

static int await_start(int word, struct err *e)
{
    struct err said;
    ssize_t n;

    do
        n = read(word, &said, sizeof said);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof said || said.code <= ERR_OK || said.code >= ERR_CODE_COUNT_)
        return err_set(e, ERR_BUG, "the process that decompresses could not be started");
    said.msg[sizeof said.msg - 1] = '\0';
    if (e)
        *e = said;
    return -(int)said.code;
}

static int start_decompressor(struct decompress *d, const struct format *f, int fd, struct err *e)
{
    const struct confine limits = { .parent = getpid(), .dir = -1, .memory_max = MEMORY_MAX };
    AUTO_CLOSE int from = -1, to = -1, word = -1, word_to = -1;
    char program[32];
    int r = find_program(f, program, sizeof program, e);

    if (r < 0)
        return r;
    if (make_archive_pipe(&from, &to) < 0 || make_archive_pipe(&word, &word_to) < 0)
        return err_sys(e, "making a pipe");
    d->pid_ = fork();
    if (d->pid_ < 0)
        return err_sys(e, "forking");
    if (d->pid_ == 0)
        run_program(f, (const int[]){ fd, to, -1, word_to }, program, &limits);
    drop_fd(&word_to);
    d->program_ = f->program;
    d->plain = take_fd(&from);
    return await_start(word, e);
}

int decompress_start(struct decompress *d, int fd, struct err *e)
{
    const struct format *f;
    int r = detect_format(fd, lseek(fd, 0, SEEK_CUR), MAGIC_MAX, &f, e);

    *d = DECOMPRESS_NONE;
    if (r >= 0 && f)
        r = start_decompressor(d, f, fd, e);
    if (r < 0)
        decompress_end(d);
    return r;
}

/* --- a part of a file --- */

struct archive_part {
    int fd;
    uint64_t at, n;
};

static void __attribute__((noreturn))
run_feeder(const struct archive_part *p, const int *fds, const struct confine *c)
{
    uint64_t at = p->at, end = p->at + p->n;
    char piece[TREE_CHUNK];

    if (confine_fds(fds, STDERR_FILENO + 1, NULL) < 0 || confine_enter(c, NULL) < 0)
        _exit(1);
    while (at < end) {
        size_t want = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        ssize_t got = pread(STDIN_FILENO, piece, want, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || at_write(STDOUT_FILENO, piece, (size_t)got, NULL) < 0)
            _exit(1);
        at += (uint64_t)got;
    }
    _exit(0);
}

/* Starts a process that writes the part into a pipe; *ret is the read end. */
static int start_feeder(struct decompress *d, const struct archive_part *p, int *ret, struct err *e)
{
    const struct confine limits = { .parent = getpid(), .dir = -1 };
    AUTO_CLOSE int from = -1, to = -1;

    if (make_archive_pipe(&from, &to) < 0)
        return err_sys(e, "making a pipe");
    d->feeder_ = fork();
    if (d->feeder_ < 0)
        return err_sys(e, "forking");
    if (d->feeder_ == 0)
        run_feeder(p, (const int[]){ p->fd, to, -1 }, &limits);
    *ret = take_fd(&from);
    return 0;
}

static int start_part(struct decompress *d, const struct format *f, const struct archive_part *p,
                      struct err *e)
{
    AUTO_CLOSE int input = -1;
    struct stat st;
    int r;

    if (fstat(p->fd, &st) < 0)
        return err_sys(e, "looking at the archive");
    if (p->at == 0 && p->n == (uint64_t)st.st_size) /* the whole file: no feeder */
        return lseek(p->fd, 0, SEEK_SET) < 0 ? err_sys(e, "going to the start of the archive")
                                             : start_decompressor(d, f, p->fd, e);
    r = start_feeder(d, p, &input, e);
    return r < 0 ? r : start_decompressor(d, f, input, e);
}

int decompress_start_part(struct decompress *d, int fd, uint64_t at, uint64_t n, struct err *e)
{
    const struct archive_part part = { fd, at, n };
    const struct format *f;
    int r = at > INT64_MAX || n > INT64_MAX - at
                ? err_set(e, ERR_INVALID, "a part of the archive that cannot be")
                : detect_format(fd, (off_t)at, n < MAGIC_MAX ? (size_t)n : MAGIC_MAX, &f, e);

    *d = DECOMPRESS_NONE;
    if (r >= 0 && f)
        r = start_part(d, f, &part, e);
    if (r < 0)
        decompress_end(d);
    return r;
}

/* --- the end --- */

static void end_process(pid_t *pid)
{
    int status;

    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    (void)spawn_wait(*pid, &status, NULL);
    *pid = 0;
}

/* SIGPIPE is not an error: the caller did not read all of the output. */
int decompress_finish(struct decompress *d, struct err *e)
{
    int status, r;

    drop_fd(&d->plain);
    if (d->pid_ <= 0)
        return 0;
    r = spawn_wait(d->pid_, &status, e);
    d->pid_ = 0;
    end_process(&d->feeder_); /* its reader has ended */
    if (r < 0)
        return r;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE)
        return err_set(e, ERR_INVALID, "%s died while it decompressed the archive (signal %d)",
                       d->program_, WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return err_set(e, ERR_INVALID, "%s cannot decompress the archive; it is damaged or cut off",
                       d->program_);
    return 0;
}

void decompress_end(struct decompress *d)
{
    drop_fd(&d->plain);
    end_process(&d->pid_);
    end_process(&d->feeder_);
}
