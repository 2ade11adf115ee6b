/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how two texts differ, by diff(1). */
#ifndef CLI_TEXT_DIFF_H
#define CLI_TEXT_DIFF_H

#include "base/err.h"
#include "base/str.h"

/* Prints the unified differences of two files on stdout, free of anything that a terminal could act
 * on. The labels are shown in the place of file names. -ERR_NOT_FOUND if there is no diff. */
int text_diff_files(const char *from, int from_fd, const char *to, int to_fd, struct err *e);

/* The same for texts in memory. */
int text_diff(const char *from, struct str from_text, const char *to, struct str to_text,
              struct err *e);

#endif
