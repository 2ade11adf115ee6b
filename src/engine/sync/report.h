/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the lines of a report through a pipe, from a process that parses hostile input: so the
 * reader trusts nothing.
 *
 * A frame is its kind (1 byte), an action (1), the length of the path (2) and of the reason (2), in
 * the machine's byte order, the path, and the reason. Two kinds have no path: the amount of data so
 * far, with a number of 8 bytes as reason, and the last frame, with a struct sync_report_end. */
#ifndef ENGINE_SYNC_REPORT_H
#define ENGINE_SYNC_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/sync/sync.h"
#include "lib/tar/tree.h"

/* The result of the call: its return value, error and report. */
struct sync_report_end {
    int r;
    struct err e;
    struct sync_report report;
};

enum {
    REPORT_HEAD = 6,
    REPORT_REASON_MAX = SYNC_REASON_MAX > (int)sizeof(struct sync_report_end)
                            ? SYNC_REASON_MAX
                            : (int)sizeof(struct sync_report_end),
    REPORT_FRAME_MAX = REPORT_HEAD + TREE_PATH_MAX + REPORT_REASON_MAX,
};

/* Each blocks until it is written. Long reasons are cut. */
int sync_report_line(int fd, const struct sync_line *line, struct err *e);
int sync_report_moved(int fd, uint64_t bytes, struct err *e);
int sync_report_end(int fd, const struct sync_report_end *end, struct err *e);

/* Parses frames incrementally. */
struct sync_report_reader {
    sync_line_fn *line;   /* gets a path that is relative and not empty, and a printable reason */
    sync_moved_fn *moved; /* NULL unless set after the init */
    void *ctx;
    bool ended; /* end is set */
    struct sync_report_end end;
    size_t n_;
    char frame_[REPORT_FRAME_MAX];
};
void sync_report_reader_init(struct sync_report_reader *r, sync_line_fn *line, void *ctx);

/* -ERR_INVALID for malformed frames; then read no further. */
int sync_report_feed(struct sync_report_reader *r, struct str bytes, struct err *e);

#endif
