/* SPDX-License-Identifier: Apache-2.0 */
/* Folds names that differ on Linux but are equal on other file systems (vfat, NTFS, HFS+,
 * directories of ext4 that ignore case). */
#ifndef ENGINE_SYNC_SPELLING_H
#define ENGINE_SYNC_SPELLING_H

#include <stdbool.h>

#include "base/str.h"

/* Writes each component of a path without the parts that such file systems ignore: trailing dots
 * and blanks, the name of a stream after a colon, invisible characters. Non-ASCII letters that fold
 * to an ASCII letter are replaced; the case of ASCII letters stays, so compare case-insensitively.
 * A component never becomes empty. Returns the bytes written, at most path.n. */
size_t spelling_fold(struct str path, char *out);

/* Whether a folded component has the form of a short name ("GIT~1", "MCP~1.JSO"), which NTFS and
 * vfat generate for long or hidden names. */
bool spelling_is_short(struct str name);

#endif
