/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/report.h"

#include <stdint.h>
#include <string.h>

#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "engine/sync/sync.h"

const char *const sync_action_names[SYNC_ACTION_COUNT_ + 1] = {
    [SYNC_CREATED] = "created",         [SYNC_REPLACED] = "replaced", [SYNC_DELETED] = "deleted",
    [SYNC_OVERWRITTEN] = "overwritten", [SYNC_CONFLICT] = "conflict", [SYNC_KEPT] = "kept",
    [SYNC_SENSITIVE] = "sensitive",     [SYNC_REFUSED] = "refused",   [SYNC_FAILED] = "failed",
    [SYNC_SKIPPED] = "skipped",         [SYNC_UNSTABLE] = "unstable",
};

const char *sync_action_name(enum sync_action action)
{
    return sync_action_names[action];
}

enum { FRAME_LINE = 1, FRAME_END = 2, FRAME_MOVED = 3 };

struct report_head {
    uint8_t kind, action;
    uint16_t path_n, reason_n;
};
_Static_assert(sizeof(struct report_head) == REPORT_HEAD, "the frame's layout");

static int write_frame(int fd, struct report_head h, struct str path, struct str reason,
                       struct err *e)
{
    char frame[REPORT_FRAME_MAX];

    h.path_n = (uint16_t)path.n;
    h.reason_n = (uint16_t)reason.n;
    memcpy(frame, &h, sizeof h);
    if (path.n > 0)
        memcpy(frame + sizeof h, path.p, path.n);
    if (reason.n > 0)
        memcpy(frame + sizeof h + path.n, reason.p, reason.n);
    return at_write(fd, frame, sizeof h + path.n + reason.n, e);
}

int sync_report_line(int fd, const struct sync_line *line, struct err *e)
{
    struct str reason = { line->reason, strnlen(line->reason, SYNC_REASON_MAX - 1) };

    if (line->path.n == 0 || line->path.n >= TREE_PATH_MAX)
        return err_set(e, ERR_BUG, "a sync report has a path of %zu bytes", line->path.n);
    return write_frame(fd,
                       (struct report_head){ .kind = FRAME_LINE, .action = (uint8_t)line->action },
                       line->path, reason, e);
}

int sync_report_moved(int fd, uint64_t bytes, struct err *e)
{
    return write_frame(fd, (struct report_head){ .kind = FRAME_MOVED }, (struct str){ 0 },
                       (struct str){ (const char *)&bytes, sizeof bytes }, e);
}

int sync_report_end(int fd, const struct sync_report_end *end, struct err *e)
{
    return write_frame(fd, (struct report_head){ .kind = FRAME_END }, (struct str){ 0 },
                       (struct str){ (const char *)end, sizeof *end }, e);
}

void sync_report_reader_init(struct sync_report_reader *r, sync_line_fn *line, void *ctx)
{
    r->line = line;
    r->moved = NULL;
    r->ctx = ctx;
    r->ended = false;
    r->n_ = 0;
}

static int invalid_report(struct err *e)
{
    return err_set(e, ERR_INVALID, "malformed report from the sync process");
}

static bool is_valid_head(const struct report_head *h)
{
    if (h->kind == FRAME_END || h->kind == FRAME_MOVED)
        return h->action == 0 && h->path_n == 0 &&
               h->reason_n ==
                   (h->kind == FRAME_END ? sizeof(struct sync_report_end) : sizeof(uint64_t));
    return h->kind == FRAME_LINE && h->action < SYNC_ACTION_COUNT_ && h->path_n > 0 &&
           h->path_n < TREE_PATH_MAX && h->reason_n < SYNC_REASON_MAX;
}

static void make_printable(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            text[i] = '?';
}

static int read_line_frame(struct sync_report_reader *r, const struct report_head *h, struct err *e)
{
    struct str path = { r->frame_ + sizeof *h, h->path_n };
    char reason[SYNC_REASON_MAX];
    struct tree_path clean;

    if (tree_path(path, &clean, NULL) < 0 || clean.n != path.n)
        return invalid_report(e);
    memcpy(reason, path.p + path.n, h->reason_n);
    reason[h->reason_n] = '\0';
    make_printable(reason, h->reason_n);
    if (r->line)
        r->line(r->ctx, &(struct sync_line){ (enum sync_action)h->action, path, reason });
    return 0;
}

static int read_end_frame(struct sync_report_reader *r, struct err *e)
{
    struct sync_report_end *end = &r->end;
    char *manifest = r->frame_ + REPORT_HEAD + offsetof(struct sync_report_end, report.manifest);
    unsigned char raw = (unsigned char)*manifest;

    *manifest = raw == 1; /* a bool that is neither 0 nor 1 must not be read as one */
    memcpy(end, r->frame_ + REPORT_HEAD, sizeof *end);
    if (raw > 1 || end->r > 0 || end->r <= -(int)ERR_CODE_COUNT_)
        return invalid_report(e);
    end->e.code = (enum err_code) - end->r;
    end->e.msg[sizeof end->e.msg - 1] = '\0';
    make_printable(end->e.msg, strlen(end->e.msg));
    r->ended = true;
    return 0;
}

/* The bytes that must be read before the next parsing step. */
static size_t frame_bytes_wanted(const struct sync_report_reader *r, struct report_head *ret)
{
    if (r->n_ < sizeof *ret)
        return sizeof *ret;
    memcpy(ret, r->frame_, sizeof *ret);
    return sizeof *ret + ret->path_n + ret->reason_n;
}

int sync_report_feed(struct sync_report_reader *r, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        struct report_head h = { 0 };
        size_t step = frame_bytes_wanted(r, &h) - r->n_;
        uint64_t moved;
        int done = 0;

        if (r->ended)
            return invalid_report(e);
        if (step > bytes.n)
            step = bytes.n;
        memcpy(r->frame_ + r->n_, bytes.p, step);
        r->n_ += step;
        bytes.p += step;
        bytes.n -= step;
        if (r->n_ < frame_bytes_wanted(r, &h) && r->n_ != sizeof h)
            continue;
        if (!is_valid_head(&h))
            return invalid_report(e);
        if (r->n_ < frame_bytes_wanted(r, &h))
            continue;
        if (h.kind != FRAME_MOVED) {
            done = h.kind == FRAME_END ? read_end_frame(r, e) : read_line_frame(r, &h, e);
        } else if (r->moved) {
            memcpy(&moved, r->frame_ + REPORT_HEAD, sizeof moved);
            r->moved(r->ctx, moved);
        }
        if (done < 0)
            return done;
        r->n_ = 0;
    }
    return 0;
}
