/* SPDX-License-Identifier: Apache-2.0 */
/* Describes for people which limit ended a process or a file operation. */
#ifndef EDGE_CORE_LIMIT_TEXT_H
#define EDGE_CORE_LIMIT_TEXT_H

#include "backends/backend.h"

enum { LIMIT_TEXT_MAX = 64 };

/* "out of memory (limit 64M)" */
const char *limit_text_oom(const struct backend_end *end, char ret[static LIMIT_TEXT_MAX]);
/* " (the sandbox's disk limit is 256M)"; "" without one. */
const char *limit_text_disk(const struct backend_end *end, char ret[static LIMIT_TEXT_MAX]);

#endif
