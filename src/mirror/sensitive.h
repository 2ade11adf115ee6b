/* Names that make the host run something without being asked: a hook, a setting that names a
 * program, the start-up file of a shell. A sandbox that could write them would have the host. */
#ifndef MIRROR_SENSITIVE_H
#define MIRROR_SENSITIVE_H

#include "base/str.h"

/* Why a file or link at this path (in the form of tree/path.h) is sensitive; NULL if it is not.
 * Directories never are: only what is in them runs. */
const char *sensitive_reason(struct str path);

#endif
