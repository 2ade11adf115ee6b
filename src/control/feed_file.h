/* An audit file as a reader of the feed sees it. Private to it. */
#ifndef CONTROL_FEED_FILE_H
#define CONTROL_FEED_FILE_H

#include "base/str.h"
#include "control/feed.h"

/* When the decision was made, in milliseconds; -1: it is none of ours. */
int64_t feed_line_time(struct str line);

/* False: nothing was decided. */
bool feed_line_kind(struct str line, enum feed_kind *ret);

/* The time of its first line, which stands for the file; 0: it has none. */
int64_t feed_file_name(int fd);

/* Where a line begins before which, as far as times ascend, there are only older ones. */
int64_t feed_file_seek(int fd, int64_t ms);

/* As many whole lines as fit, from `at` on; 0: there is none. What is longer than any line, and so
 * none, is passed over: *at moves. */
size_t feed_file_read(int fd, int64_t *at, char *piece, size_t cap);

#endif
