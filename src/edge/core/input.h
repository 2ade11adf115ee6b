/* Bytes for a background process's stdin, given as it takes them; then the call is answered. */
#ifndef API_INPUT_H
#define API_INPUT_H

#include "api/processes.h"

enum { INPUT_WHOLE_MAX = 4 << 20 };

/* The request's body, as it comes; with `close`, the end of it is the end of stdin. Answers 204.
 * The reference to the process becomes the call's. */
void input_stream(struct call *c, struct process *p, bool close);

/* Bytes that are there, INPUT_WHOLE_MAX at most; `done` answers when all of them are given. */
void input_whole(struct call *c, struct process *p, struct str data, void (*done)(struct call *c));

#endif
