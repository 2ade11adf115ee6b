/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/upload.h"

#include <string.h>

#include "lib/ipc/control.h"

_Static_assert(sizeof(struct upload_head) + CONTROL_PATH_MAX <= UPLOAD_RECORD_MAX,
               "a path is read at once");

static int check_upload_path(const struct upload_records *u, uint32_t size, struct err *e)
{
    if (u->files == UPLOAD_FILES_MAX)
        return err_set(e, ERR_TOO_BIG, "an upload has more than %d files", UPLOAD_FILES_MAX);
    if (!size)
        return err_set(e, ERR_INVALID, "a file of an upload has no path");
    if (size >= CONTROL_PATH_MAX)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", CONTROL_PATH_MAX - 1);
    if (size > UPLOAD_TEXT_MAX - u->text)
        return err_set(e, ERR_TOO_BIG, "the paths of an upload have more than %d bytes",
                       UPLOAD_TEXT_MAX);
    return 0;
}

static ssize_t take_upload_file(struct upload_records *u, uint32_t size, struct str in,
                                struct upload_event *ret, struct err *e)
{
    struct str path = { in.p + sizeof(struct upload_head), size };
    int r = check_upload_path(u, size, e);

    if (r < 0)
        return r;
    if (in.n - sizeof(struct upload_head) < size)
        return 0;
    if (path.p[0] != '/' || memchr(path.p, '\0', path.n))
        return err_set(e, ERR_INVALID, "a path of an upload is not absolute, or has a NUL");
    u->files++;
    u->text += size;
    *ret = (struct upload_event){ UPLOAD_FILE_BEGINS, path };
    return (ssize_t)(sizeof(struct upload_head) + size);
}

static ssize_t take_upload_head(struct upload_records *u, const struct upload_head *h,
                                struct str in, struct upload_event *ret, struct err *e)
{
    switch (h->kind) {
    case UPLOAD_FILE:
        return take_upload_file(u, h->size, in, ret, e);
    case UPLOAD_DATA:
        if (!u->files || !h->size)
            return err_set(e, ERR_INVALID, "data of an upload is empty, or of no file");
        u->left = h->size;
        return sizeof *h;
    case UPLOAD_COMMIT:
        if (h->size)
            return err_set(e, ERR_INVALID, "the end of an upload has bytes");
        u->over = true;
        ret->kind = UPLOAD_ALL_CAME;
        return sizeof *h;
    default:
        return err_set(e, ERR_INVALID, "an upload has no records of kind %u", h->kind);
    }
}

ssize_t upload_next(struct upload_records *u, struct str in, struct upload_event *ret,
                    struct err *e)
{
    struct upload_head h;

    *ret = (struct upload_event){ .kind = UPLOAD_MORE };
    if (u->over)
        return in.n ? err_set(e, ERR_INVALID, "bytes behind the end of an upload") : 0;
    if (u->left) {
        if (in.n > u->left)
            in.n = u->left;
        if (in.n)
            *ret = (struct upload_event){ UPLOAD_FILE_BYTES, in };
        u->left -= (uint32_t)in.n;
        return (ssize_t)in.n;
    }
    if (in.n < sizeof h)
        return 0;
    memcpy(&h, in.p, sizeof h);
    return take_upload_head(u, &h, in, ret, e);
}
