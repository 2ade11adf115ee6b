/* SPDX-License-Identifier: Apache-2.0 */
/* Tests features that depend on file system, kernel and user. */
#ifndef ENGINE_STORAGE_PROBE_H
#define ENGINE_STORAGE_PROBE_H

#include "base/err.h"

/* Whether files in this directory share blocks. */
int probe_reflink(int dir, struct err *e);
/* Whether overlayfs accepts directories in it as upper directories, as for a sandbox. */
int probe_overlay(int dir, struct err *e);

#endif
