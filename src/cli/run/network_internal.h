/* SPDX-License-Identifier: Apache-2.0 */
/* Private interface of the network files. */
#ifndef CLI_RUN_NETWORK_INTERNAL_H
#define CLI_RUN_NETWORK_INTERNAL_H

#include "cli/run/network.h"

/* --- network.c --- */

int network_start_worker(struct network *n, struct err *e);
/* The listeners and the policy, to the worker that there is now. */
int network_send_sandbox(struct network *n, struct err *e);

/* --- network_life.c --- */

/* Ends the worker, if there is one. */
void network_kill(struct network *n);
/* Sets the position at which the audit chain continues after a killed worker. */
void network_resume_record(struct network *n, struct wire_add *ret);

#endif
