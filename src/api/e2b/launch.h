/* What runs in a new sandbox before its client hears of it. */
#ifndef API_E2B_LAUNCH_H
#define API_E2B_LAUNCH_H

#include "api/e2b/built.h"

/* The call, which is held until then, has its sandbox. */
typedef void launch_fn(struct call *c, int r, const struct err *e);
/* Of a template that was built: its start command, until its ready command succeeds. */
void e2b_launch(struct call *c, const struct built *b, launch_fn *done);
/* Of an image: clients run programs as `user`, whom few images have. One without a shell stays as
 * it is, for those who name another. */
void e2b_launch_image(struct call *c, launch_fn *done);
extern const char launch_make_user[]; /* a script for root */

#endif
