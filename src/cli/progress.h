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
/* Sets the current step; "" clears it. May come from outside: text that is not a word is not
 * shown. */
void progress_step(struct str step);
void progress_moved(uint64_t bytes); /* in addition to what moved so far */
void progress_at(uint64_t bytes);    /* so much moved so far */
void progress_of(uint64_t bytes);    /* … of so many; 0: unknown */
/* Where it is not: from now on, to the end. News go to both ways of showing. */
void progress_lines(const char *what);
void progress_news(struct str step, uint64_t bytes, uint64_t total);
void progress_end(void); /* takes the line away; may be called without a begin */

#endif
