/* Lines of a report on their way through a pipe: from a process that handles hostile input, so the
 * reader takes nothing for granted.
 *
 * A frame is its kind (1 byte), an action (1), the length of the path (2) and of the reason (2), in
 * the machine's byte order, the path, and the reason. Two have no path: how much has gone through,
 * with a number of 8 bytes for its reason, and the last one, with a struct mirror_report_end. */
#ifndef MIRROR_REPORT_H
#define MIRROR_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "mirror/mirror.h"
#include "tree/tree.h"

/* How it ended: what the call returned, and what it filled in. */
struct mirror_report_end {
    int r;
    struct err e;
    struct mirror_report report;
};

enum {
    REPORT_HEAD = 6,
    REPORT_REASON_MAX = MIRROR_REASON_MAX > (int)sizeof(struct mirror_report_end)
                            ? MIRROR_REASON_MAX
                            : (int)sizeof(struct mirror_report_end),
    REPORT_FRAME_MAX = REPORT_HEAD + TREE_PATH_MAX + REPORT_REASON_MAX,
};

/* Each blocks until it is written. A reason that is too long is cut. */
int mirror_report_line(int fd, const struct mirror_line *line, struct err *e);
int mirror_report_moved(int fd, uint64_t bytes, struct err *e);
int mirror_report_end(int fd, const struct mirror_report_end *end, struct err *e);

/* Takes bytes as they come. */
struct mirror_report_reader {
    mirror_line_fn *line;   /* gets a path that is relative and not empty, and a printable reason */
    mirror_moved_fn *moved; /* NULL unless set after the init */
    void *ctx;
    bool ended; /* end is set */
    struct mirror_report_end end;
    size_t n_;
    char frame_[REPORT_FRAME_MAX];
};
void mirror_report_reader_init(struct mirror_report_reader *r, mirror_line_fn *line, void *ctx);

/* -ERR_INVALID for what nobody of ours writes; then read no more. */
int mirror_report_feed(struct mirror_report_reader *r, struct str bytes, struct err *e);

#endif
