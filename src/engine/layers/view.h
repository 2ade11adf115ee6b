/* What a layer says of a path to those who look through it, as overlayfs would read it. */
#ifndef LAYERS_VIEW_H
#define LAYERS_VIEW_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

/* VIEW_GONE: it is removed, and nothing further down counts. VIEW_NOT: it says nothing. */
enum view { VIEW_NOT, VIEW_THERE, VIEW_GONE };

/* `tree`: a descriptor of the layer's root; *ret is filled for VIEW_THERE. */
enum view view_ask(int tree, const char *path, struct stat *ret);

bool view_is_whiteout(const struct stat *st);
bool view_is_opaque(int dir);
int view_set_opaque(int dir, struct err *e);

#endif
