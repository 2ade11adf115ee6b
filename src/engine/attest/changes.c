/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/tar/at.h"

/* A writable layer has a limited size, but sparse files have not: longer files are not read. No
 * file of that size leaves a sandbox. */
#define FILE_BYTES_MAX (UINT64_C(320) << 20)
#define BYTES_MAX      (UINT64_C(4) << 30)

/* --- Reading --- */

static int parse_part(struct str text, struct attest_part *ret, struct err *e)
{
    struct str source, dir, at = str_cut(text, '=', &source), below = str_cut(source, '+', &dir);

    ret->has_lower = below.p;
    if (!at.p || dir.n == 0 || str_find(source, '/') < source.n ||
        !str_copy(dir, ret->dir, sizeof ret->dir) || !str_copy(at, ret->at, sizeof ret->at) ||
        !str_copy(below.p ? below : STR(""), ret->below, sizeof ret->below))
        return err_set(e, ERR_INVALID, "'%.40s' is not a part of a layer: DIR=AT", text.p);
    return 0;
}

int attest_parts_parse(struct str text, struct attest_parts *ret, struct err *e)
{
    struct str one;
    int r = 0;

    for (ret->n = 0; text.p && r >= 0; ret->n++) {
        if (ret->n == ATTEST_PARTS_MAX)
            return err_set(e, ERR_TOO_BIG, "more than %d parts of a layer", ATTEST_PARTS_MAX);
        text = str_cut(text, ',', &one);
        r = parse_part(one, &ret->p[ret->n], e);
    }
    return r;
}

int attest_layer_read(struct attest_files *f, int layer, const struct attest_parts *parts,
                      struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < parts->n && r >= 0; i++) {
        const struct attest_part *p = &parts->p[i];
        const struct attest_reading how = { .at = p->at,
                                            .itself = true,
                                            .has_lower = p->has_lower,
                                            .below = p->below,
                                            .file_bytes = FILE_BYTES_MAX,
                                            .bytes = BYTES_MAX };
        AUTO_CLOSE int dir = at_open(layer, p->dir, O_RDONLY | O_DIRECTORY, 0);

        if (dir < 0 && errno == ENOENT)
            continue;
        r = dir < 0 ? at_error(e, "opening a part of the writable layer")
                    : attest_files_add(f, dir, &how, e);
    }
    attest_files_sort(f);
    return r;
}

/* --- Comparing --- */

/* An entry that was not in the layer before. Overlayfs copies a file up when it is opened for
 * writing or changed, and then it counts as changed: times can be set back, so nothing but all of
 * the content could say otherwise. A directory is also copied for what is put into it. Links are not
 * followed: where a lower link is in the way, a directory has replaced it and the entry is new. */
static const char *change_of_new(const struct attest_file *f, int lower)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (f->mark == ATTEST_WHITEOUT)
        return "deleted";
    if (f->has_lower)
        fd = at_open(lower, f->path, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return "added";
    if (f->kind == ATTEST_DIRECTORY && f->mark != ATTEST_OPAQUE && S_ISDIR(st.st_mode) &&
        f->mode == (st.st_mode & 07777))
        return NULL;
    return "changed";
}

static void write_deleted(const char *path, struct json_writer *w)
{
    json_begin_object(w);
    json_field_text(w, "path", path);
    json_field_str(w, "change", STR("deleted"));
    json_end_object(w);
}

static void write_file_change(const struct attest_file *f, const char *change,
                              struct json_writer *w)
{
    if (!change)
        return;
    if (strcmp(change, "deleted") == 0)
        write_deleted(f->path, w);
    else
        attest_file_write(f, change, w);
}

/* Both are sorted: one walk through both. */
void attest_changes_write(const struct attest_files *before, const struct attest_files *after,
                          int lower, struct json_writer *w)
{
    size_t i = 0, k = 0;

    json_begin_array(w);
    while (i < after->n || k < before->n) {
        int order = i == after->n    ? 1
                    : k == before->n ? -1
                                     : strcmp(after->p[i].path, before->p[k].path);

        if (order > 0)
            write_deleted(before->p[k].path, w);
        else if (order < 0)
            write_file_change(&after->p[i], change_of_new(&after->p[i], lower), w);
        else if (!attest_file_same(&before->p[k], &after->p[i]))
            write_file_change(&after->p[i],
                              after->p[i].mark == ATTEST_WHITEOUT ? "deleted" : "changed", w);
        i += order <= 0;
        k += order >= 0;
    }
    json_end_array(w);
}
