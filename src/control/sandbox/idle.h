/* Whether a sandbox is in use. It is idle while none of the uses below applies; its idle deadline
 * is the end of the last use plus idle_ns of its record.
 *
 * Requests, clients, egress and background processes are noted as they come and go. Processor time
 * and processes that programs left behind are known inside only: the reaper looks there when the
 * idle deadline comes due (ttl.c), and takes what other looks (usage.h) find meanwhile. */
#ifndef CONTROL_IDLE_H
#define CONTROL_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct ext_usage;
struct process;
struct sandbox;

enum sandbox_use {
    USE_REQUEST, /* one came */
    USE_CLIENT,  /* one is attached: to a program, a port, output of a process */
    USE_EGRESS,  /* bytes went out or came in */
    USE_CPU,     /* more than IDLE_CPU_PER_MILLE of a processor between two looks */
    USE_PROCESS, /* one of a client's runs, or a helper of ours is busy */
    USE_COUNT_
};

enum { IDLE_CPU_PER_MILLE = 2 };

/* What a sandbox remembers of its use; clock_boot(). */
struct idle {
    int64_t used_ns[USE_COUNT_]; /* the last time of each */
    unsigned attached;           /* clients now */
    unsigned processes;          /* background processes of clients now */
    int64_t looked_ns, cpu_ns;   /* the last look, and what was used inside until then … */
    bool looked;                 /* … if there was one */
};

void idle_begin(struct idle *v); /* its sandbox is ready, or was found again: a use */
void idle_note(struct idle *v, enum sandbox_use use);
int64_t idle_since(const struct idle *v); /* the end of the last use; now while one goes on */

/* A sandbox whose use counts: it is reaped when idle, and not paused. */
bool idle_counts(const struct sandbox *s);
int64_t idle_deadline(const struct sandbox *s);

/* Notes what a look inside found; with `whole`, also the processes. False: there was no look
 * before, or so short a time ago that processor time says nothing; look again after idle_span(). */
bool idle_look(struct sandbox *s, const struct ext_usage *u, bool whole);
int64_t idle_span(const struct sandbox *s);

/* --- helper.c --- */
/* A helper of ours that runs and waits for work. */
bool helper_waits(const struct process *p);

#endif
