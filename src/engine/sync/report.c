#include "mirror/report.h"

#include <stdint.h>
#include <string.h>

#include "tree/at.h"
#include "tree/path.h"

enum { FRAME_LINE = 1, FRAME_END = 2, FRAME_MOVED = 3 };

struct head {
    uint8_t kind, action;
    uint16_t path_n, reason_n;
};
_Static_assert(sizeof(struct head) == REPORT_HEAD, "the frame's layout");

static int put_frame(int fd, struct head h, struct str path, struct str reason, struct err *e)
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

int mirror_report_line(int fd, const struct mirror_line *line, struct err *e)
{
    struct str reason = { line->reason, strnlen(line->reason, MIRROR_REASON_MAX - 1) };

    if (line->path.n == 0 || line->path.n >= TREE_PATH_MAX)
        return err_set(e, ERR_BUG, "a report about a path of %zu bytes", line->path.n);
    return put_frame(fd, (struct head){ .kind = FRAME_LINE, .action = (uint8_t)line->action },
                     line->path, reason, e);
}

int mirror_report_moved(int fd, uint64_t bytes, struct err *e)
{
    return put_frame(fd, (struct head){ .kind = FRAME_MOVED }, (struct str){ 0 },
                     (struct str){ (const char *)&bytes, sizeof bytes }, e);
}

int mirror_report_end(int fd, const struct mirror_report_end *end, struct err *e)
{
    return put_frame(fd, (struct head){ .kind = FRAME_END }, (struct str){ 0 },
                     (struct str){ (const char *)end, sizeof *end }, e);
}

void mirror_report_reader_init(struct mirror_report_reader *r, mirror_line_fn *line, void *ctx)
{
    r->line = line;
    r->moved = NULL;
    r->ctx = ctx;
    r->ended = false;
    r->n_ = 0;
}

static int foreign(struct err *e)
{
    return err_set(e, ERR_INVALID, "the mirroring process says what it never would");
}

static bool good_head(const struct head *h)
{
    if (h->kind == FRAME_END || h->kind == FRAME_MOVED)
        return h->action == 0 && h->path_n == 0 &&
               h->reason_n ==
                   (h->kind == FRAME_END ? sizeof(struct mirror_report_end) : sizeof(uint64_t));
    return h->kind == FRAME_LINE && h->action < MIRROR_ACTION_COUNT_ && h->path_n > 0 &&
           h->path_n < TREE_PATH_MAX && h->reason_n < MIRROR_REASON_MAX;
}

static void make_printable(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            text[i] = '?';
}

static int take_line(struct mirror_report_reader *r, const struct head *h, struct err *e)
{
    struct str path = { r->frame_ + sizeof *h, h->path_n };
    char reason[MIRROR_REASON_MAX];
    struct tree_path clean;

    if (tree_path(path, &clean, NULL) < 0 || clean.n != path.n)
        return foreign(e);
    memcpy(reason, path.p + path.n, h->reason_n);
    reason[h->reason_n] = '\0';
    make_printable(reason, h->reason_n);
    if (r->line)
        r->line(r->ctx, &(struct mirror_line){ (enum mirror_action)h->action, path, reason });
    return 0;
}

static int take_moved(struct mirror_report_reader *r)
{
    uint64_t bytes;

    memcpy(&bytes, r->frame_ + REPORT_HEAD, sizeof bytes);
    if (r->moved)
        r->moved(r->ctx, bytes);
    return 0;
}

static int take_end(struct mirror_report_reader *r, struct err *e)
{
    struct mirror_report_end *end = &r->end;
    bool manifest;
    unsigned char raw;

    /* A bool that is neither 0 nor 1 must not be looked at as one. */
    memcpy(&raw, r->frame_ + REPORT_HEAD + offsetof(struct mirror_report_end, report.manifest), 1);
    manifest = raw == 1;
    memcpy(r->frame_ + REPORT_HEAD + offsetof(struct mirror_report_end, report.manifest), &manifest,
           1);
    memcpy(end, r->frame_ + REPORT_HEAD, sizeof *end);
    if (raw > 1 || end->r > 0 || end->r <= -(int)ERR_CODE_COUNT_)
        return foreign(e);
    end->e.code = (enum err_code) - end->r;
    end->e.msg[sizeof end->e.msg - 1] = '\0';
    make_printable(end->e.msg, strlen(end->e.msg));
    r->ended = true;
    return 0;
}

/* How many bytes the frame needs before more is known about it. */
static size_t wanted(const struct mirror_report_reader *r, struct head *ret)
{
    if (r->n_ < sizeof *ret)
        return sizeof *ret;
    memcpy(ret, r->frame_, sizeof *ret);
    return sizeof *ret + ret->path_n + ret->reason_n;
}

int mirror_report_feed(struct mirror_report_reader *r, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        struct head h = { 0 };
        size_t step = wanted(r, &h) - r->n_;
        int done = 0;

        if (r->ended)
            return foreign(e);
        if (step > bytes.n)
            step = bytes.n;
        memcpy(r->frame_ + r->n_, bytes.p, step);
        r->n_ += step;
        bytes.p += step;
        bytes.n -= step;
        if (r->n_ < wanted(r, &h) && r->n_ != sizeof h)
            continue;
        if (!good_head(&h))
            return foreign(e);
        if (r->n_ < wanted(r, &h))
            continue;
        done = h.kind == FRAME_END     ? take_end(r, e)
               : h.kind == FRAME_MOVED ? take_moved(r)
                                       : take_line(r, &h, e);
        if (done < 0)
            return done;
        r->n_ = 0;
    }
    return 0;
}
