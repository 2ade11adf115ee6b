/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a sandbox is in use. It is idle while none of the uses below applies; its idle deadline
 * is the end of the last use plus idle_ns of its record.
 *
 * Requests, clients, egress and background processes are noted as they come and go. Processor time
 * and processes that programs left behind are visible inside the sandbox only: the reaper samples
 * them when the idle deadline is due (ttl.c), and uses the samples of usage.h in between. */
#ifndef CONTROL_SANDBOX_IDLE_H
#define CONTROL_SANDBOX_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct backend_usage;
struct process;
struct sandbox;

enum sandbox_use {
    USE_REQUEST, /* a request arrived */
    USE_CLIENT,  /* a client is attached: to a program, a port, the output of a process */
    USE_EGRESS,  /* bytes went out or came in */
    USE_CPU,     /* more than IDLE_CPU_PER_MILLE of a processor between two samples */
    USE_PROCESS, /* a client's process runs, or one of our helpers is busy */
    USE_COUNT_
};

enum { IDLE_CPU_PER_MILLE = 2 };

/* The uses of a sandbox; clock_boot(). */
struct idle {
    int64_t used_ns[USE_COUNT_]; /* the last time of each */
    unsigned attached;           /* clients now */
    unsigned processes;          /* background processes of clients now */
    int64_t sampled_ns, cpu_ns;  /* the last sample, and the processor time at that moment … */
    bool sampled;                /* … if there was one */
};

void idle_begin(struct idle *v); /* the sandbox is ready, or was found again: counts as a use */
void idle_note(struct idle *v, enum sandbox_use use);
int64_t idle_since(const struct idle *v); /* the end of the last use; now, during a use */

/* Whether idleness matters: the sandbox is reaped when idle, and is not paused. */
bool idle_counts(const struct sandbox *s);
int64_t idle_deadline(const struct sandbox *s);

/* Notes the uses that a sample shows; with `whole`, also the processes. False: there was no earlier
 * sample, or too recent a one to judge processor time; sample again after idle_span(). */
bool idle_sample(struct sandbox *s, const struct backend_usage *u, bool whole);
int64_t idle_span(const struct sandbox *s);

/* --- helper.c --- */
/* Whether a helper of ours is running and waits for work. */
bool helper_waits(const struct process *p);

#endif
