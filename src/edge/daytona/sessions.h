/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the toolbox: a shell that runs one command after the other. It is a background
 * process with a tag, so the daemon keeps no state of it and finds it again after a restart; the
 * commands and their results are parsed from its output. */
#ifndef EDGE_DAYTONA_SESSIONS_H
#define EDGE_DAYTONA_SESSIONS_H

#include "edge/daytona/session_scan.h"
#include "edge/core/processes.h"

/* Finds a background process by the kind and name in its tag; the newest one of that name,
 * referenced, or NULL. */
struct process *daytona_find_process(struct sandbox *s, const char *kind, struct str name);
/* The name in the tag of a process of that kind, else NULL. */
const char *daytona_tag_name(const struct process_view *v, const char *kind);
/* Number of running processes of that kind. */
size_t daytona_count_processes(struct sandbox *s, const char *kind);

#define DAYTONA_SESSION "daytona.session:"
#define DAYTONA_PTY     "daytona.pty:"

enum { DAYTONA_TAG_MAX = 64, DAYTONA_RUNNING_MAX = 64 };

/* Checks a name given by a client. Returns false after it has answered the call. */
bool daytona_name_good(struct call *c, struct str name);

/* Kills the process with its descendants, forgets it and answers the call. Takes the reference. */
void daytona_remove_process(struct call *c, struct process *p);

#endif
