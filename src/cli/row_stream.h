/* SPDX-License-Identifier: Apache-2.0 */
/* An answer without an end that has a JSON document a line: NDJSON, and server-sent events. */
#ifndef CLI_ROW_STREAM_H
#define CLI_ROW_STREAM_H

#include "cli/api_call.h"

#define ROW_STREAM_SSE STR("data: ")

/* Sends it and prints what comes as it comes: of each line that begins with `prefix` the rest, as a
 * row or in the format that was asked for. A status. */
int row_stream(struct api_call *c, struct str prefix, const struct column *columns, size_t n);

#endif
