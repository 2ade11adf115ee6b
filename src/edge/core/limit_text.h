/* What a limit did to a process or a file operation, in words for people. */
#ifndef API_LIMIT_TEXT_H
#define API_LIMIT_TEXT_H

#include "extensions/extension.h"

enum { LIMIT_TEXT_MAX = 64 };

/* "out of memory (limit 64M)" */
const char *limit_text_oom(const struct ext_end *end, char ret[static LIMIT_TEXT_MAX]);
/* " (the sandbox's disk limit is 256M)"; "" without one. */
const char *limit_text_disk(const struct ext_end *end, char ret[static LIMIT_TEXT_MAX]);

#endif
