/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a whole text file, up to a ceiling. */
#ifndef CLI_TEXT_FILE_H
#define CLI_TEXT_FILE_H

#include "base/buf.h"

enum { TEXT_FILE_MAX = 1 << 20 };

/* "-" is stdin. -ERR_TOO_BIG beyond what out can hold. Messages begin with the path. */
int text_file_read(const char *path, struct buf *out, struct err *e);

#endif
