/* SPDX-License-Identifier: Apache-2.0 */
/* A host directory and a directory that stands for the sandbox's workspace, mirrored by the engine
 * through the same tar code that PID 1 runs. */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "base/err.h"
#include "engine/sync/sync.h"
#include "unit/lib/tar/scratch.h"

struct world {
    struct scratch s;
    int host, box;
    int manifest; /* of the last agreement; -1: none yet */
    struct sync_job_options options;
    struct sync_report report;
    struct err e;
};

struct world *world_make(void); /* both empty; never freed: a test is a process */

/* Host to sandbox. The test fails if it does not work. */
void world_send(struct world *w);

/* Sandbox to host with these flags: what sync_receive() returned. */
int world_receive(struct world *w, unsigned flags);

/* The same with an archive as the sandbox's stream. */
int world_receive_archive(struct world *w, const struct archive *a, unsigned flags);
int world_receive_fd(struct world *w, int fd, unsigned flags);

/* The last call said this about a path; and how many lines it had. */
bool said(enum sync_action action, const char *path);
unsigned lines_said(void);
void forget_lines(void);

int memory_file(void);
void rewind_file(int fd);

#endif
