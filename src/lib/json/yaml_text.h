/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a JSON tree as YAML in block style, so that readers of YAML 1.1 and 1.2 find the same
 * values: a string stays unquoted only where no reader takes it for another type. */
#ifndef LIB_JSON_YAML_TEXT_H
#define LIB_JSON_YAML_TEXT_H

#include "base/buf.h"
#include "lib/json/value.h"

/* Appends the text, ended by a newline. -ERR_TOO_BIG past the buffer's ceiling. */
int yaml_text(struct buf *out, const struct json *v);

#endif
