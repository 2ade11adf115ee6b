/* What a built template runs in every new sandbox of it: its start command, until its ready command
 * succeeds. */
#ifndef API_E2B_LAUNCH_H
#define API_E2B_LAUNCH_H

#include "api/e2b/built.h"

/* The call, which is held until then, has its sandbox. */
typedef void launch_fn(struct call *c, int r, const struct err *e);
void e2b_launch(struct call *c, const struct built *b, launch_fn *done);

#endif
