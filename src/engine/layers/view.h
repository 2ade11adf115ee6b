/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a path in one overlay layer: present, whiteout, or not mentioned. */
#ifndef ENGINE_LAYERS_VIEW_H
#define ENGINE_LAYERS_VIEW_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

/* VIEW_WHITEOUT: removed; lower layers do not count. VIEW_UNMENTIONED: lower layers decide. */
enum view { VIEW_UNMENTIONED, VIEW_PRESENT, VIEW_WHITEOUT };

/* `tree`: a descriptor of the layer's root; *ret is filled for VIEW_PRESENT. */
enum view view_look_up(int tree, const char *path, struct stat *ret);

/* Whether a stack of such trees, uppermost first, shows the path; fills *ret if it does. */
bool view_shows(const int *trees, size_t n, const char *path, struct stat *ret);

bool view_is_whiteout(const struct stat *st);
bool view_is_opaque(int dir);
int view_set_opaque(int dir, struct err *e);

#endif
