/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text_diff.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "lib/proc/spawn.h"

enum { DIFF_SHOWN_MAX = 1 << 20, DIFF_LABEL_MAX = 4200 };

/* Its status is 1 where the files differ. */
static int run_diff(const char *from, int from_fd, const char *to, int to_fd, int out,
                    struct err *e)
{
    char from_label[DIFF_LABEL_MAX], to_label[DIFF_LABEL_MAX], program[PATH_MAX];
    const char *argv[] = {
        "diff", "-u", from_label, to_label, "--", "/proc/self/fd/3", "/proc/self/fd/4", NULL
    };
    const int fds[] = { -1, out, STDERR_FILENO, from_fd, to_fd };
    int status, r;
    pid_t pid;

    snprintf(from_label, sizeof from_label, "--label=%s", from);
    snprintf(to_label, sizeof to_label, "--label=%s", to);
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

/* Bytes of a sandbox must not act on the terminal. */
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

int text_diff_files(const char *from, int from_fd, const char *to, int to_fd, struct err *e)
{
    AUTO_CLOSE int out = memfd_create("differences", MFD_CLOEXEC);
    int r = out < 0 ? err_sys(e, "making memory for the differences")
                    : run_diff(from, from_fd, to, to_fd, out, e);

    return r < 0 ? r : print_clean_file(out, e);
}

int text_diff(const char *from, struct str from_text, const char *to, struct str to_text,
              struct err *e)
{
    AUTO_CLOSE int a = memfd_create("from", MFD_CLOEXEC), b = memfd_create("to", MFD_CLOEXEC);
    int r;

    if (a < 0 || b < 0)
        return err_sys(e, "making memory for the differences");
    r = write_all(a, from_text, e);
    if (r >= 0)
        r = write_all(b, to_text, e);
    return r < 0 ? r : text_diff_files(from, a, to, b, e);
}
