/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/receive.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/at.h"

#define RACED_REASON "the host changed the file while it was being replaced"

/* Prepared, but a directory occupies its name until the end of the stream. */
enum { HOST_DEFERRED = HOST_LOST + 1 };

/* Moves temp to the item's name; clears temp if that succeeds. */
static int move_into_place(struct receive *rc, struct item *it, char *temp, struct err *e)
{
    int r;

    if (rc->o->pause)
        rc->o->pause(rc->o->ctx, it->path.text);
    if (it->host.kind == KIND_DIR) {
        it->entry->temp = sync_manifest_keep(&rc->manifest, str_from(temp), e);
        r = it->entry->temp ? HOST_DEFERRED : -(int)ERR_TOO_BIG;
    } else {
        r = host_put(&it->host, temp, e);
    }
    if (r == HOST_DONE || r == HOST_LOST || r == HOST_DEFERRED)
        temp[0] = '\0';
    return r;
}

static int replace_host_file(struct receive *rc, struct item *it, struct err *e)
{
    struct sync_content *c = &it->content;
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, it->mtime };

    if (c->trouble < 0) {
        if (e)
            *e = c->why;
        return c->trouble;
    }
    if (c->fd < 0)
        return err_set(e, ERR_BUG, "internal error: its content was not stored");
    if (fchmod(c->fd, it->box.mode) < 0)
        return err_sys(e, "setting its mode");
    (void)futimens(c->fd, times); /* the file system may not support the time */
    drop_fd(&c->fd);
    return move_into_place(rc, it, c->temp, e);
}

/* Makes the link, or an empty directory, under a temporary name. */
static int replace_by_link_or_dir(struct receive *rc, struct item *it, struct err *e)
{
    bool link = it->box.kind == KIND_LINK;
    char temp[HOST_TEMP_MAX];
    int r = host_temp_name(temp, e);

    if (r < 0)
        return r;
    if ((link ? symlinkat(it->target, it->host.parent, temp)
              : mkdirat(it->host.parent, temp, 0700)) < 0)
        return err_sys(e, link ? "creating the link" : "creating the directory");
    r = move_into_place(rc, it, temp, e);
    if (temp[0])
        (void)at_clear(it->host.parent, temp);
    return r;
}

/* The mode is set at the end: the sandbox's mode may forbid writing into the directory. */
static int replace_host_dir(struct receive *rc, struct item *it, struct err *e)
{
    int r = HOST_DONE;

    if (!it->host.there && mkdirat(it->host.parent, it->host.name, 0700) < 0)
        return errno == EEXIST ? HOST_RACED : err_sys(e, "creating the directory");
    if (it->host.there && it->host.kind != KIND_DIR)
        r = replace_by_link_or_dir(rc, it, e);
    if (r == HOST_DONE) {
        it->entry->mode_due = true;
        it->entry->due = it->box;
    }
    return r;
}

static int apply_item(struct receive *rc, struct item *it, struct err *e)
{
    switch (it->box.kind) {
    case KIND_FILE:
        return replace_host_file(rc, it, e);
    case KIND_LINK:
        return replace_by_link_or_dir(rc, it, e);
    case KIND_DIR:
        return replace_host_dir(rc, it, e);
    default:
        return err_set(e, ERR_BUG, "internal error: unknown kind of file");
    }
}

void receive_apply(struct receive *rc, struct item *it, enum sync_action action)
{
    struct str path = it->entry->path;
    struct err e = { 0 };
    int r = has_flag(rc, SYNC_DRY_RUN) ? HOST_DONE : apply_item(rc, it, &e);

    if (r < 0 || r == HOST_LOST) {
        receive_note(rc, SYNC_FAILED, path, e.msg);
    } else if (r == HOST_RACED) {
        receive_note(rc, SYNC_CONFLICT, path, RACED_REASON);
    } else if (r == HOST_DEFERRED) {
        it->entry->due = it->box;
        it->entry->due_action = action;
    } else {
        it->entry->made = it->box.kind == KIND_DIR;
        if (it->box.kind == KIND_FILE)
            rc->report->bytes += rc->in.entry.size;
        receive_record(it->entry, &it->box, (struct sync_identity){ 0 });
        receive_note(rc, action, path, "");
    }
}
