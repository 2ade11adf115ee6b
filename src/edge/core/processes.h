/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes in the REST interface: functions shared by several files. */
#ifndef EDGE_CORE_PROCESSES_H
#define EDGE_CORE_PROCESSES_H

#include "edge/core/internal.h"
#include "control/process/processes.h"

void process_write(struct json_writer *w, const void *process); /* struct process */

/* The process that the path names, referenced for the caller; NULL: the call is answered. */
struct process *process_of_call(struct call *c);

void process_attach(struct call *c); /* attach.c */
void process_logs(struct call *c);   /* logs.c */

#endif
