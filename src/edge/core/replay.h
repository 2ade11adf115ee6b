/* A request of HTTP that waited for a master, made again when one has approved it.
 *
 * It goes the way that every request goes, over a connection that this process has with itself, so
 * that it is the request which runs and not something like it. What says who asks is a secret of
 * this one request, good once and on such a connection alone. */
#ifndef API_REPLAY_H
#define API_REPLAY_H

#include "api/approved.h"

enum { REPLAY_BODY_MAX = 512 << 10 }; /* bytes of a body that is no JSON, and can be held */

/* Tells with trust_call_done() what it answered: its JSON; other bytes as {content, encoding}. */
void replay_run(struct api *a, struct trust_call *c, struct peer *p);
/* Whether this is one: then it is known who asks, and nothing is asked any more; or it is answered.
 */
enum replay_answer { REPLAY_NONE, REPLAY_KNOWN, REPLAY_REFUSED };
enum replay_answer replay_identify(struct call *c);
/* Those under way are told to have been interrupted. */
void replays_close(struct api *a);

/* A streamed body, as one that is held: members for its arguments. False: too long. */
bool replay_hold_body(struct call *c, struct json ret[static 2]);

#endif
