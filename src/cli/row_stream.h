/* An answer without an end that has a JSON document a line: NDJSON, and server-sent events. */
#ifndef CLI_ROW_STREAM_H
#define CLI_ROW_STREAM_H

#include "cli/call.h"

#define ROW_STREAM_SSE STR("data: ")

/* Sends it and prints what comes as it comes: of each line that begins with `prefix` the rest, as a
 * row or in the format that was asked for. A status. */
int row_stream(struct call *c, struct str prefix, const struct column *columns, size_t n);

#endif
