/* SPDX-License-Identifier: Apache-2.0 */
/* The defaults of every start in a box, from its profile, image and network: user, working
 * directory and variables. For backends, which store them with the box. */
#ifndef BACKENDS_DEFAULTS_H
#define BACKENDS_DEFAULTS_H

#include "backends/backend.h"
#include "base/arena.h"
#include "base/buf.h"

enum { BACKEND_DEFAULTS_MAX = 128 << 10 };

/* Writes them as strings, each ended by NUL: user, working directory, variables. A box outlives the
 * profile that it was made from, so they are kept on disk. */
int backend_defaults_write(const struct backend_spec *s, struct buf *ret, struct err *e);
bool backend_defaults_valid(struct str defaults);
/* The working directory of valid defaults; "": the user's home. */
const char *backend_usual_cwd(struct str defaults);
const char *backend_usual_user(const struct backend_spec *s);

/* A start with the defaults for everything that the request leaves out. Texts are borrowed from
 * both, or allocated on the arena. */
int backend_start_fill(struct str defaults, const struct process_start *s, struct arena *a,
                       struct process_start *ret, struct err *e);

#endif
