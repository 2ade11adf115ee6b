/* Names that differ on Linux and that other file systems (vfat, NTFS, HFS+, directories of ext4
 * that ignore case) take for the same. */
#ifndef MIRROR_SPELLING_H
#define MIRROR_SPELLING_H

#include <stdbool.h>

#include "base/str.h"

/* Writes each component of a path without the parts that such a file system ignores: dots and
 * blanks at its end, the name of a stream behind a colon, invisible characters. Letters outside of
 * ASCII that fold to one of ASCII become that one; the case of ASCII letters stays, so compare
 * without regard to it. A component never becomes empty. Returns the bytes written, at most path.n.
 */
size_t spelling_fold(struct str path, char *out);

/* Whether a folded component has the form of a short name ("GIT~1", "MCP~1.JSO"), which NTFS and
 * vfat make up for a long or hidden one. */
bool spelling_is_short(struct str name);

#endif
