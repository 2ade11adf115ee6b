/* What a session of code writes, taken apart: the lines about one execution, as its client gets
 * them. Whatever is in there comes from a sandbox.
 *
 * On stdout, a line that begins with an execution's id and a blank is about that one: JSON, or
 * "end". The rest is for sessions that tell what their code writes as it is: other lines are its
 * output, of which one that ends with \036 has no end of its own. On stderr, \036+ID and \036-ID
 * are lines between which it is output of that execution. */
#ifndef API_E2B_CODE_OUTPUT_H
#define API_E2B_CODE_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"

struct code_output {
    const char *id;  /* of the execution */
    bool raw;        /* the session is one of those */
    struct buf told; /* lines of JSON for the client, for whoever takes them */
    /* private */
    struct buf line_[2];
    bool begun_[2], ended_[2], amid_;
};

void code_output_init(struct code_output *o, const char *id, bool raw);
void code_output_done(struct code_output *o);

/* Takes what came on stdout (1) or stderr (2). 1: the execution is over. -ERR_TOO_BIG: more than a
 * session tells at once. */
int code_output_take(struct code_output *o, int channel, struct str data);

#endif
