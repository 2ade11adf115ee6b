/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one audit file, for egress_tail.c only. */
#ifndef CONTROL_EGRESS_EGRESS_TAIL_FILE_H
#define CONTROL_EGRESS_EGRESS_TAIL_FILE_H

#include "base/str.h"
#include "control/egress/egress_tail.h"

/* Time of the decision in milliseconds; -1: not an audit line. */
int64_t egress_tail_line_time(struct str line);

/* False: the line is not a decision. */
bool egress_tail_line_kind(struct str line, enum egress_tail_kind *ret);

/* The time of its first line, which identifies the file; 0: it is empty. */
int64_t egress_tail_file_name(int fd);

/* The start of a line that has only older lines before it, as far as times ascend. */
int64_t egress_tail_file_seek(int fd, int64_t ms);

/* Reads as many whole lines as fit, from `at` on; 0: none. Skips text that is longer than any line
 * by moving *at. */
size_t egress_tail_file_read(int fd, int64_t *at, char *piece, size_t cap);

#endif
