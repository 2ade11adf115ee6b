/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the output of a code session into the messages of one execution, as JSON lines for its
 * client. The input is untrusted: it comes from a sandbox.
 *
 * On stdout, a line that begins with an execution id and a space belongs to that execution: a JSON
 * object, or "end"; anything else is dropped. In raw sessions every other line is output of the code; a line that ends with \036 had
 * no newline of its own. In raw sessions, output on stderr belongs to an execution between the
 * lines \036+ID and \036-ID. */
#ifndef EDGE_CODE_CODE_OUTPUT_H
#define EDGE_CODE_CODE_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"

struct code_output {
    const char *id;        /* of the execution */
    bool raw;              /* the session writes its code's output unencoded */
    int64_t now_ns;        /* wall clock: the time of unencoded output; 0: it has none */
    struct buf json_lines; /* for the client; the caller removes them */
    /* private */
    struct buf line_[2];
    bool begun_[2], ended_[2], amid_;
};

void code_output_init(struct code_output *o, const char *id, bool raw);
void code_output_done(struct code_output *o);

/* Parses output of stdout (1) or stderr (2). Returns 1 at the end of the execution; -ERR_TOO_BIG if
 * a line is too long. */
int code_output_take(struct code_output *o, int channel, struct str data);
bool code_output_begun(const struct code_output *o); /* the execution has begun */

#endif
