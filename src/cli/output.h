/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a process's output from the events that carry it. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/buf.h"
#include "lib/json/value.h"

/* The bytes of a line of a log ("stream", and "line" or "line_b64"), with its end, and the descriptor
 * to write them to: 1 or 2. 0: another event. */
int output_line(const struct json *line, struct buf *bytes, struct err *e);

/* The same bytes for a terminal that shall not act on them: line ends and tabs stay. */
int output_clean(struct str bytes, struct buf *out);

#endif
