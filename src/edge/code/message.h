/* SPDX-License-Identifier: Apache-2.0 */
/* A message of a kernel, which comes from a sandbox and goes to its client as it is. */
#ifndef EDGE_CODE_MESSAGE_H
#define EDGE_CODE_MESSAGE_H

#include <stdbool.h>

#include "base/str.h"

enum { MESSAGE_DEPTH_MAX = 64 };

/* Whether the line is one JSON object in UTF-8 (RFC 8259), ended by the newline that is its last
 * byte, with at most MESSAGE_DEPTH_MAX lists and objects inside each other. Builds no tree: a line
 * of 8 MiB costs no memory. Keys may repeat, and escapes may name lone surrogates. */
bool message_is_object(struct str line);

#endif
