/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/host_mounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/storage/skeleton.h"

enum {
    POINT_FIELD = 4, /* the mount point: separated by spaces, counted from 0 */
    LINE_MAX_ = 16 << 10,
};

/* A space, tab, newline or backslash is written as three octal digits. */
static bool unescape_path(char *text)
{
    char *to = text;

    for (const char *p = text; *p; p++) {
        if (*p != '\\') {
            *to++ = *p;
            continue;
        }
        if (p[1] < '0' || p[1] > '3' || p[2] < '0' || p[2] > '7' || p[3] < '0' || p[3] > '7')
            return false;
        *to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
        p += 3;
    }
    *to = '\0';
    return true;
}

static bool is_at_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);

    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* True for paths that a sandbox may see. */
static bool is_visible_path(const char *path)
{
    if (is_at_or_below(path, "/etc"))
        return true;
    for (size_t i = 0; i < skeleton_system_count; i++)
        if (path[0] == '/' && is_at_or_below(path + 1, skeleton_system[i]))
            return true;
    return false;
}

static int keep_mount(struct host_mounts *m, const char *path, struct err *e)
{
    struct host_mount *at = &m->mounts[m->n];
    struct stat st;

    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->mounts[i].path, path) == 0) /* mounted over: open() reaches the uppermost */
            return 0;
    if (m->n == HOST_MOUNTS_MAX || strlen(path) >= sizeof at->path)
        return err_set(e, ERR_TOO_BIG,
                       "more than %d mounts below the system directories, or a path of more than "
                       "%zu bytes, at "
                       "%.80s",
                       HOST_MOUNTS_MAX, sizeof at->path - 1, path);
    snprintf(at->path, sizeof at->path, "%s", path);
    at->fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (at->fd >= 0 && (fstat(at->fd, &st) < 0 || S_ISLNK(st.st_mode)))
        drop_fd(&at->fd);
    at->is_dir = at->fd >= 0 && S_ISDIR(st.st_mode);
    m->n++;
    return 0;
}

static int parse_mount_line(struct host_mounts *m, char *line, struct err *e)
{
    char *at = line, *end;

    for (int i = 0; i < POINT_FIELD && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    end = at ? strchr(at, ' ') : NULL;
    if (!end)
        return err_set(e, ERR_INVALID, "a line has no mount point");
    *end = '\0';
    if (!is_visible_path(at))
        return 0;
    return unescape_path(at) ? keep_mount(m, at, e)
                             : err_set(e, ERR_INVALID, "a path has an invalid escape sequence");
}

/* Parses complete lines and moves the rest to the front; returns its length. */
static int parse_mount_lines(struct host_mounts *m, char *text, size_t n, struct err *e)
{
    char *line = text, *end;
    int r = 0;

    while (r >= 0 && (end = memchr(line, '\n', n - (size_t)(line - text)))) {
        *end = '\0';
        r = parse_mount_line(m, line, e);
        line = end + 1;
    }
    if (r < 0)
        return r;
    n -= (size_t)(line - text);
    memmove(text, line, n);
    return (int)n;
}

/* Avoids stdio: its first allocation would cost more in a process that allocates nothing else. */
static int read_mount_lines(struct host_mounts *m, int file, struct err *e)
{
    char text[LINE_MAX_];
    ssize_t n;
    int kept = 0;

    while ((n = read(file, text + kept, sizeof text - (size_t)kept)) > 0) {
        kept = parse_mount_lines(m, text, (size_t)kept + (size_t)n, e);
        if (kept < 0)
            return kept;
        if (kept == (int)sizeof text)
            return err_set(e, ERR_TOO_BIG, "a line has more than %zu bytes", sizeof text);
    }
    return n < 0 ? err_sys(e, "reading it") : 0;
}

int host_mounts_read(const char *file, struct host_mounts *ret, struct err *e)
{
    AUTO_CLOSE int in = open(file, O_RDONLY | O_CLOEXEC);
    struct host_mounts m = { .read = true };
    int r = in < 0 ? err_sys(e, "opening it") : read_mount_lines(&m, in, e);

    if (r < 0)
        host_mounts_done(&m);
    else
        *ret = m;
    return err_wrap(e, r, "%s", file);
}

void host_mounts_done(struct host_mounts *m)
{
    for (size_t i = 0; i < m->n; i++)
        drop_fd(&m->mounts[i].fd);
    m->n = 0;
    m->read = false;
}

const struct host_mount *host_mounts_of(const struct host_mounts *m, const char *path)
{
    const struct host_mount *best = NULL;

    for (size_t i = 0; i < m->n; i++)
        if (is_at_or_below(path, m->mounts[i].path) &&
            (!best || strlen(m->mounts[i].path) > strlen(best->path)))
            best = &m->mounts[i];
    return best;
}
