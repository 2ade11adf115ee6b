/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/review_diff.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "lib/proc/spawn.h"
#include "lib/proc/sys.h"

enum { DIFF_FILE_MAX = 4 << 20, DIFF_SHOWN_MAX = 1 << 20, DIFF_LABEL_MAX = 4200 };

/* The file inside, in memory; a deleted one is empty. -1 after a message. */
static int fetch_inside(const struct review *r, const char *path, bool gone)
{
    AUTO(api_call_done) struct api_call c;
    AUTO_CLOSE int file = memfd_create("inside", MFD_CLOEXEC);
    char whole[PATH_MAX + 16];
    struct str piece;
    size_t n = 0;
    int status = 0;

    snprintf(whole, sizeof whole, "/workspace/%s", path);
    api_call_init(&c, r->verb, r->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/files", r->sandbox);
    api_call_query(&c, "path", whole);
    if (file >= 0 && !gone)
        status = api_call_open(&c);
    while (file >= 0 && !gone && status == 0 && n < DIFF_FILE_MAX &&
           api_call_next(&c, &piece, &status) > 0) {
        n += piece.n;
        if (write_all(file, piece, NULL) < 0)
            return -1;
    }
    if (n >= DIFF_FILE_MAX)
        cli_report("the file has more than %d MiB; what follows is of its beginning",
                   DIFF_FILE_MAX >> 20);
    return status == 0 && file >= 0 ? take_fd(&file) : -1;
}

/* The file here, never through a link; /dev/null in the place of everything else. */
static int open_here(const char *dir, const char *path)
{
    AUTO_CLOSE int top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int file = top < 0 ? -1
                                  : sys_openat2(top, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
                                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat st;

    if (file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode))
        return take_fd(&file);
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Runs diff(1); its status is 1 where the files differ. */
static int run_diff(const char *path, int here, int inside, int out, struct err *e)
{
    char from[DIFF_LABEL_MAX], to[DIFF_LABEL_MAX], program[PATH_MAX];
    const char *argv[] = {
        "diff", "-u", from, to, "--", "/proc/self/fd/3", "/proc/self/fd/4", NULL
    };
    const int fds[] = { -1, out, STDERR_FILENO, here, inside };
    int status, r;
    pid_t pid;

    snprintf(from, sizeof from, "--label=%s (here)", path);
    snprintf(to, sizeof to, "--label=%s (sandbox)", path);
    if (!daemon_find_in_path("diff", program, sizeof program))
        return err_set(e, ERR_NOT_FOUND, "there is no diff in PATH; install diffutils");
    r = spawn_start(&(struct spawn){ .path = program,
                                     .argv = (char **)(void *)argv, /* only read */
                                     .envp = environ,
                                     .fds = fds,
                                     .n_fds = COUNT_OF(fds) },
                    &pid, e);
    return r < 0 ? r : spawn_wait(pid, &status, e);
}

/* Bytes of the sandbox must not act on the terminal. */
static int print_clean_file(int fd, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(DIFF_SHOWN_MAX + 1);
    AUTO(buf_done) struct buf clean = BUF_INIT(8 * DIFF_SHOWN_MAX);
    char *room;
    ssize_t n;
    int r = buf_room(&text, DIFF_SHOWN_MAX, &room);

    if (r < 0)
        return r;
    n = pread(fd, room, DIFF_SHOWN_MAX, 0);
    if (n < 0)
        return err_sys(e, "reading the differences");
    buf_grew(&text, (size_t)n);
    r = output_clean(buf_str(&text), &clean);
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "the differences are too large to be shown");
    fwrite(clean.p, 1, clean.n, stdout);
    if (n == DIFF_SHOWN_MAX)
        puts("…");
    return fflush(stdout) == 0 ? 0 : err_sys(e, "writing to stdout");
}

void review_diff(const struct review *r, const char *dir, const char *path, bool gone)
{
    AUTO_CLOSE int inside = fetch_inside(r, path, gone), here = -1, out = -1;
    struct err e = { 0 };

    if (inside < 0)
        return;
    here = open_here(dir, path);
    out = memfd_create("differences", MFD_CLOEXEC);
    if (here < 0 || out < 0 || run_diff(path, here, inside, out, &e) < 0 ||
        print_clean_file(out, &e) < 0)
        cli_report("%s: %s", r->verb->name, e.msg[0] ? e.msg : strerror(errno));
}
