/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/yaml/reader.h"

int yaml_file_trusted(const struct stat *st, struct err *e)
{
    bool root = geteuid() == 0;

    if (root && st->st_uid != 0)
        return err_set(e, ERR_DENIED, "belongs to user %u; root obeys only what root owns",
                       st->st_uid);
    if (st->st_mode & (root ? 022 : 002))
        return err_set(e, ERR_DENIED, "can be written by others (mode %04o); run chmod go-w",
                       st->st_mode & 07777);
    return 0;
}

static int open_yaml_file(int dir, const char *name, unsigned flags, int *ret, struct err *e)
{
    int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    AUTO_CLOSE int fd = openat(dir, name, how | (flags & YAML_FILE_NO_LINK ? O_NOFOLLOW : 0));
    struct stat st;
    int r = 0;

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "there is no such file");
    if (fd < 0 && errno == ELOOP)
        return err_set(e, ERR_DENIED, "is a symbolic link; put the file itself here");
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "cannot be opened");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "is not a regular file");
    if (!(flags & YAML_FILE_ANY_OWNER))
        r = yaml_file_trusted(&st, e);
    if (r < 0)
        return r;
    *ret = take_fd(&fd);
    return 0;
}

int yaml_file_read(int dir, const char *name, unsigned flags, struct json_limits limits,
                   struct arena *a, const struct json **ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(limits.bytes);
    AUTO_CLOSE int fd = -1;
    int r = open_yaml_file(dir, name, flags, &fd, e);

    if (r >= 0)
        r = buf_read_fd(&text, fd, e);
    return r < 0 ? r : yaml_read(buf_str(&text), limits, a, ret, e);
}

/* The next step of a path, "name" or "[2]"; the result is the rest. */
static struct str cut_step(struct str path, struct str *step)
{
    size_t n = path.n && path.p[0] == '[' ? 1 : 0;

    while (n < path.n && path.p[n] != '.' && path.p[n] != '[')
        n++;
    *step = (struct str){ path.p, n };
    if (n < path.n && path.p[n] == '.')
        n++;
    return (struct str){ path.p + n, path.n - n };
}

static const struct json *follow_step(const struct json *v, struct str step)
{
    uint64_t index;

    if (step.n < 2 || step.p[0] != '[')
        return json_get(v, step);
    if (v->type != JSON_ARRAY || !str_to_u64((struct str){ step.p + 1, step.n - 2 }, &index))
        return NULL;
    return index < v->list.n ? &v->list.p[index] : NULL;
}

const struct json *yaml_file_at(const struct json *document, const char *path, bool *ret_whole)
{
    struct str rest = str_from(path), step;
    const struct json *at = document;

    while (rest.n) {
        const struct json *next;

        rest = cut_step(rest, &step);
        next = follow_step(at, step);
        if (!next) {
            *ret_whole = false;
            return at;
        }
        at = next;
    }
    *ret_whole = true;
    return at;
}

int yaml_file_fail(const struct json *document, const char *path, struct err *e, const char *fmt,
                   ...)
{
    bool whole;
    const struct json *at = yaml_file_at(document, path, &whole);
    char line[24] = "", field[96], reason[sizeof e->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    log_printable(str_from(path), field, sizeof field);
    if (at->line)
        snprintf(line, sizeof line, "line %" PRIu32 ": ", at->line);
    return err_set(e, ERR_INVALID, "%s%s: %s", line, field, reason);
}
