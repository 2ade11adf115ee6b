/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how a file of a workspace differs from the one of this machine. */
#ifndef CLI_REVIEW_DIFF_H
#define CLI_REVIEW_DIFF_H

#include "cli/review.h"

/* `dir` is the directory here that the workspace copies; `gone`: the file was deleted inside.
 * Failures are printed, and change nothing. */
void review_diff(const struct review *r, const char *dir, const char *path, bool gone);

#endif
