/* Background processes on the wire: what the files about them share. */
#ifndef API_PROCESSES_H
#define API_PROCESSES_H

#include "api/inside.h"
#include "control/processes.h"

void process_write(struct json_writer *w, const void *process); /* struct process */

/* The process that the path names, referenced for the caller; NULL: it is answered. */
struct process *process_of_call(struct call *c);

void process_attach(struct call *c); /* attach.c */
void process_logs(struct call *c);   /* logs.c */

#endif
