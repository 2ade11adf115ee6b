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
#include "cli/text_diff.h"
#include "lib/proc/sys.h"

enum { DIFF_FILE_MAX = 4 << 20, DIFF_LABEL_MAX = 4160 };

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

void review_diff(const struct review *r, const char *dir, const char *path, bool gone)
{
    AUTO_CLOSE int inside = fetch_inside(r, path, gone), here = -1;
    char from[DIFF_LABEL_MAX], to[DIFF_LABEL_MAX];
    struct err e = { 0 };

    if (inside < 0)
        return;
    here = open_here(dir, path);
    snprintf(from, sizeof from, "%s (here)", path);
    snprintf(to, sizeof to, "%s (sandbox)", path);
    if (here < 0 || text_diff_files(from, here, to, inside, &e) < 0)
        cli_report("%s: %s", r->verb->name, e.msg[0] ? e.msg : strerror(errno));
}
