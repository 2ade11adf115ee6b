/* SPDX-License-Identifier: Apache-2.0 */
/* Shows progress in one line on a terminal's stderr, after a short delay. A timer signal draws the
 * line, so that the waiting code may block. Where stderr is not a terminal, progress_lines() prints
 * a line for each step and each quarter of a long operation. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

bool progress_is_shown(void); /* stderr is a terminal; all but lines do nothing where it is not */
/* `what` must not contain text from outside. */
void progress_begin(const char *what);
void progress_moved(uint64_t bytes); /* in addition to what moved so far */
/* Where it is not: from now on, to the end. */
void progress_lines(const char *what);
/* For both ways of showing: the current step ("": none), and the bytes that moved so far of how many
 * (0: unknown). The step may come from outside: text that is not a word is not shown. */
void progress_news(struct str step, uint64_t bytes, uint64_t total);
void progress_end(void); /* takes the line away; may be called without a begin */

#endif
