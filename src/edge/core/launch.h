/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a new sandbox before its client gets the answer. */
#ifndef EDGE_CORE_LAUNCH_H
#define EDGE_CORE_LAUNCH_H

#include "edge/core/built.h"

/* Called at the end; the call is referenced until then and has its sandbox. */
typedef void launch_fn(struct call *c, int r, const struct err *e);
/* Runs the start command of a built template, and waits until its ready command succeeds. */
void launch_template(struct call *c, const struct built *b, launch_fn *done);
/* Adds the user `user` to a sandbox made from an image, because clients run programs as that user
 * by default. An image without a shell is left unchanged. */
void launch_image(struct call *c, launch_fn *done);
extern const char launch_make_user[]; /* the script, run by root */

#endif
