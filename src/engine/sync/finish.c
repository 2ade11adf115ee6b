/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/sync/receive.h"
#include "lib/tar/at.h"

/* Deletes a directory if it is empty. Otherwise it contains files that were never synced, and it
 * belongs to the host alone. */
static void delete_dir(struct receive *rc, struct item *it, enum sync_action action)
{
    bool done =
        has_flag(rc, SYNC_DRY_RUN) || unlinkat(it->host.parent, it->host.name, AT_REMOVEDIR) == 0;

    if (!done && errno != ENOTEMPTY && errno != EEXIST) {
        receive_note(rc, SYNC_FAILED, it->entry->path, "the directory could not be removed");
        return;
    }
    it->entry->recorded = false;
    if (done)
        receive_note(rc, action, it->entry->path, "");
    else
        receive_note(rc, SYNC_CONFLICT, it->entry->path,
                     "deleted inside, but the host's directory is not empty");
}

static void delete_item(struct receive *rc, struct item *it, enum sync_action action)
{
    struct err e = { 0 };
    int r = HOST_DONE;

    if (it->host.kind == KIND_DIR) {
        delete_dir(rc, it, action);
        return;
    }
    if (rc->o->pause)
        rc->o->pause(rc->o->ctx, it->path.text);
    if (!has_flag(rc, SYNC_DRY_RUN))
        r = host_remove(&it->host, &e);
    if (r < 0 || r == HOST_LOST) {
        receive_note(rc, SYNC_FAILED, it->entry->path, e.msg);
    } else if (r == HOST_RACED) {
        receive_note(rc, SYNC_CONFLICT, it->entry->path,
                     "the host changed it while it was being deleted");
    } else {
        it->entry->recorded = false;
        receive_note(rc, action, it->entry->path, "");
    }
}

/* Reports a held deletion; the parent directories stay, too. */
static void hold_deletion(struct receive *rc, const struct item *it, const char *reason)
{
    struct sync_entry *above;

    receive_note(rc, SYNC_SENSITIVE, it->entry->path, reason);
    if (it->path.name == 0)
        return;
    above = sync_manifest_find(&rc->manifest, (struct str){ it->path.text, it->path.name - 1 });
    if (above)
        above->holds = true;
}

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Whether a file that was deleted inside may have been moved to a name that is held back. */
static bool may_be_moved(const struct receive *rc, const struct item *it, enum step step)
{
    const uint64_t *hash = &it->entry->value.hash;

    if (!rc->withheld || it->host.kind != KIND_FILE || receive_accepts(rc, it->entry->path, false))
        return false;
    return step != STEP_DELETE || it->entry->value.kind != KIND_FILE ||
           !bsearch(hash, rc->landed, rc->n_landed, sizeof *hash, compare_hashes);
}

/* Handles a name that was deleted inside. */
static void settle_gone(struct receive *rc, struct item *it)
{
    const struct decision *d = sync_decide(item_host_state(it, rc), BOX_GONE);
    bool forced = d->step == STEP_CONFLICT && has_flag(rc, SYNC_FORCE);
    const char *sensitive = receive_held(rc, it->entry->path, it->host.kind == KIND_DIR);

    if (d->step == STEP_FORGET)
        it->entry->recorded = false;
    else if (!receive_wants(rc, it->entry->path, false))
        ; /* stays on the host, without a line */
    else if (d->step == STEP_CONFLICT && !forced)
        receive_note(rc, SYNC_CONFLICT, it->entry->path, d->reason);
    else if (!has_flag(rc, SYNC_DELETE))
        receive_note(rc, SYNC_KEPT, it->entry->path, "deleted inside");
    else if (sensitive)
        hold_deletion(rc, it, sensitive);
    else if (it->entry->holds)
        hold_deletion(rc, it, "deleted inside; the deletion of files in it is held back");
    else if (may_be_moved(rc, it, d->step))
        hold_deletion(rc, it, "deleted inside; perhaps moved to a name that is held back");
    else
        delete_item(rc, it, forced ? SYNC_OVERWRITTEN : SYNC_DELETED);
}

/* Moves a prepared file or link into the place of a directory that should be empty now. */
static void settle_temp(struct receive *rc, struct item *it, bool complete)
{
    struct sync_entry *x = it->entry;
    struct err e = { 0 };
    int r = HOST_RACED;

    if (complete && it->host.kind == KIND_DIR &&
        unlinkat(it->host.parent, it->host.name, AT_REMOVEDIR) == 0) {
        it->host.there = false;
        r = host_put(&it->host, x->temp, &e);
    }
    if (r == HOST_DONE) {
        receive_record(x, &x->due, (struct sync_identity){ 0 });
        receive_note(rc, x->due_action, x->path, "");
        return;
    }
    if (it->host.parent >= 0)
        (void)at_clear(it->host.parent, x->temp);
    if (r < 0)
        receive_note(rc, SYNC_FAILED, x->path, e.msg);
    else
        receive_note(rc, SYNC_CONFLICT, x->path,
                     complete ? "the host has a non-empty directory there"
                              : "the host has a directory there, and the stream ended early");
}

static void settle_mode(struct receive *rc, struct item *it)
{
    AUTO_CLOSE int fd =
        it->host.kind == KIND_DIR
            ? host_open(it->host.parent, it->host.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
            : -1;

    /* The host's own setgid and sticky bits stay. */
    if (fd < 0 || fchmod(fd, (it->host.st.st_mode & 07000) | it->entry->due.mode) < 0)
        receive_note(rc, SYNC_FAILED, it->entry->path, "the directory's mode could not be set");
}

static int settle_entry(struct receive *rc, const struct sync_entry *x, bool complete,
                        struct err *e)
{
    AUTO(item_done) struct item it = { .content = { .fd = -1 }, .host = { .parent = -1 } };
    struct tree_path path;
    int r = tree_path(x->path, &path, e);

    if (r >= 0)
        r = item_init(&it, rc, &path, e);
    if (r < 0)
        return r;
    if (it.veto_reason) /* the host file could not be read */
        receive_note(rc, it.veto, x->path, it.veto_reason);
    else if (!x->seen)
        settle_gone(rc, &it);
    else if (x->temp)
        settle_temp(rc, &it, complete);
    else
        settle_mode(rc, &it);
    return 0;
}

static int collect_landed(struct receive *rc, struct sync_entry *const *list, struct err *e)
{
    uint64_t count = rc->manifest.count;

    if (!rc->withheld)
        return 0;
    rc->landed = calloc(count + 1, sizeof *rc->landed);
    if (!rc->landed)
        return err_set(e, ERR_TOO_BIG, "no memory for %llu hashes", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (list[i]->landed && list[i]->value.kind == KIND_FILE)
            rc->landed[rc->n_landed++] = list[i]->value.hash;
    qsort(rc->landed, rc->n_landed, sizeof *rc->landed, compare_hashes);
    return 0;
}

/* In reverse order: the contents of a directory come before it. */
int receive_finish(struct receive *rc, bool complete, struct err *e)
{
    AUTO_FREE struct sync_entry **list = NULL;
    int r = sync_manifest_sorted(&rc->manifest, &list, e);

    if (r >= 0)
        r = collect_landed(rc, list, e);
    for (uint64_t i = rc->manifest.count; r >= 0 && i-- > 0;) {
        bool gone = complete && list[i]->recorded && !list[i]->seen;

        if (gone || list[i]->temp || list[i]->mode_due)
            r = settle_entry(rc, list[i], complete, e);
    }
    return r;
}
