/* What the files of the network share. */
#ifndef CLI_NETWORK_INSIDE_H
#define CLI_NETWORK_INSIDE_H

#include "cli/network.h"

/* --- network.c --- */

int network_start_worker(struct network *n, struct err *e);
/* The listeners and the policy, to the worker that there is now. */
int network_hand_over(struct network *n, struct err *e);

/* --- network_life.c --- */

/* Ends the worker, if there is one. */
void network_kill(struct network *n);
/* Where the chain of the record goes on after a worker that was killed. */
void network_resume_record(struct network *n, struct wire_add *ret);

#endif
