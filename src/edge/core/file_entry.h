/* SPDX-License-Identifier: Apache-2.0 */
/* Mode and owner of a file, in the formats of SDK clients. */
#ifndef EDGE_CORE_FILE_ENTRY_H
#define EDGE_CORE_FILE_ENTRY_H

#include "lib/json/writer.h"

enum { ENTRY_MODE_TEXT = 11 };
/* "drwxr-xr-x" as Go formats it: a symbolic link has an L. */
void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT]);
/* Writes a user or group as a member: the name if every sandbox has it (root, user), else the
 * number. */
void entry_write_owner(struct json_writer *w, const char *key, uint32_t id);

#endif
