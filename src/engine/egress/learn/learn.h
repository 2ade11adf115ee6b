/* SPDX-License-Identifier: Apache-2.0 */
/* Proposes a policy from an egress log: `sandboxer-egress --learn`. The first line of the input is the question, a JSON
 * object; the lines behind it are the log, in any order, of which nothing is kept but its
 * destinations. The answer is one JSON object. */
#ifndef ENGINE_EGRESS_LEARN_LEARN_H
#define ENGINE_EGRESS_LEARN_LEARN_H

#include "base/buf.h"
#include "base/err.h"
#include "lib/json/bind.h"

/* Reads the descriptor to its end. */
int learn_run(int fd, struct buf *out, struct err *e);

/* The same for a text, which holds whole lines. */
int learn_text(struct str input, struct buf *out, struct err *e);

#endif
