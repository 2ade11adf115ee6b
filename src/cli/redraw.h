/* SPDX-License-Identifier: Apache-2.0 */
/* A table that is drawn again and again in the same place of a terminal. */
#ifndef CLI_REDRAW_H
#define CLI_REDRAW_H

#include "cli/answer.h"

/* Whether stdout is a terminal where this works, and the table is for people. */
bool redraw_available(const struct common *c);

/* Like answer_list(), in the place of all that the terminal shows. Rows below its last line are counted
 * instead. */
int redraw_table(const struct api_call *c, const struct json *tree, const struct answer_kind *k);

#endif
