#include "mirror/receive.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "tree/at.h"

#define RACED_REASON "the host changed it while it was being replaced"

/* Prepared, but a directory is in its place until the end of the stream. */
enum { LATER = HOST_LOST + 1 };

/* Moves temp to the item's name; it is nobody's temporary file any more if that succeeds. */
static int move_in(struct receive *rc, struct item *it, char *temp, struct err *e)
{
    int r;

    if (rc->o->pause)
        rc->o->pause(rc->o->ctx, it->path.text);
    if (it->host.kind == KIND_DIR) {
        it->entry->temp = mirror_manifest_keep(&rc->manifest, str_from(temp), e);
        r = it->entry->temp ? LATER : -(int)ERR_TOO_BIG;
    } else {
        r = host_put(&it->host, temp, e);
    }
    if (r == HOST_DONE || r == HOST_LOST || r == LATER)
        temp[0] = '\0';
    return r;
}

static int put_file(struct receive *rc, struct item *it, struct err *e)
{
    struct content *c = &it->content;
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, it->mtime };

    if (c->trouble < 0) {
        if (e)
            *e = c->why;
        return c->trouble;
    }
    if (c->fd < 0)
        return err_set(e, ERR_BUG, "its content was not stored");
    if (fchmod(c->fd, it->box.mode) < 0)
        return err_sys(e, "setting its mode");
    (void)futimens(c->fd, times); /* a time that the file system cannot keep is no loss */
    drop_fd(&c->fd);
    return move_in(rc, it, c->temp, e);
}

static int put_link(struct receive *rc, struct item *it, struct err *e)
{
    char temp[HOST_TEMP_MAX];
    int r = host_temp_name(temp, e);

    if (r < 0)
        return r;
    if (symlinkat(it->target, it->host.parent, temp) < 0)
        return err_sys(e, "making the link");
    r = move_in(rc, it, temp, e);
    if (temp[0])
        (void)at_clear(it->host.parent, temp);
    return r;
}

static int replace_by_dir(struct receive *rc, struct item *it, struct err *e)
{
    char temp[HOST_TEMP_MAX];
    int r = host_temp_name(temp, e);

    if (r < 0)
        return r;
    if (mkdirat(it->host.parent, temp, 0700) < 0)
        return err_sys(e, "making the directory");
    r = move_in(rc, it, temp, e);
    if (temp[0])
        (void)at_clear(it->host.parent, temp);
    return r;
}

/* It gets its mode at the end: that of the sandbox may not let us put anything into it. */
static int put_dir(struct receive *rc, struct item *it, struct err *e)
{
    int r = HOST_DONE;

    if (!it->host.there && mkdirat(it->host.parent, it->host.name, 0700) < 0)
        return errno == EEXIST ? HOST_RACED : err_sys(e, "making the directory");
    if (it->host.there && it->host.kind != KIND_DIR)
        r = replace_by_dir(rc, it, e);
    if (r == HOST_DONE) {
        it->entry->mode_due = true;
        it->entry->due = it->box;
    }
    return r;
}

static int put(struct receive *rc, struct item *it, struct err *e)
{
    switch (it->box.kind) {
    case KIND_FILE:
        return put_file(rc, it, e);
    case KIND_LINK:
        return put_link(rc, it, e);
    case KIND_DIR:
        return put_dir(rc, it, e);
    default:
        return err_set(e, ERR_BUG, "nothing to put there");
    }
}

void receive_apply(struct receive *rc, struct item *it, enum mirror_action action)
{
    struct str path = it->entry->path;
    struct err e = { 0 };
    int r = has_flag(rc, MIRROR_DRY_RUN) ? HOST_DONE : put(rc, it, &e);

    if (r < 0 || r == HOST_LOST) {
        receive_note(rc, MIRROR_FAILED, path, e.msg);
    } else if (r == HOST_RACED) {
        receive_note(rc, MIRROR_CONFLICT, path, RACED_REASON);
    } else if (r == LATER) {
        it->entry->due = it->box;
        it->entry->due_action = action;
    } else {
        it->entry->made = it->box.kind == KIND_DIR;
        if (it->box.kind == KIND_FILE)
            rc->report->bytes += rc->in.entry.size;
        receive_record(it->entry, &it->box, (struct mirror_identity){ 0 });
        receive_note(rc, action, path, "");
    }
}
