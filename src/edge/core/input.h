/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to a background process's stdin as fast as the process reads, then answers the call. */
#ifndef EDGE_CORE_INPUT_H
#define EDGE_CORE_INPUT_H

#include "edge/core/processes.h"

enum { INPUT_WHOLE_MAX = 4 << 20 };

/* Streams the request's body; with `close`, its end closes stdin. Answers 204. Takes over the
 * reference to the process. */
void input_stream(struct call *c, struct process *p, bool close);

/* Writes the given bytes, INPUT_WHOLE_MAX at most; `done` answers when all are written. */
void input_whole(struct call *c, struct process *p, struct str data, void (*done)(struct call *c));

#endif
