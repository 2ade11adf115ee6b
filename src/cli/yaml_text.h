/* A tree as YAML text in block style, written so that every reader, of YAML 1.1 or 1.2, finds the
 * same values: a string stays without quotes only where nobody could take it for something else. */
#ifndef CLI_YAML_TEXT_H
#define CLI_YAML_TEXT_H

#include "base/buf.h"
#include "json/value.h"

/* Appends the text, ended by a newline. -ERR_TOO_BIG past the buffer's ceiling. */
int yaml_text(struct buf *out, const struct json *v);

#endif
