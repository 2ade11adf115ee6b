/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the toolbox: a shell that runs one command after the other. It is a background
 * process; the commands and their results are parsed from its output. */
#ifndef EDGE_DAYTONA_SESSIONS_H
#define EDGE_DAYTONA_SESSIONS_H

#include "edge/daytona/session_scan.h"
#include "edge/core/background.h"

/* Kinds of background processes. */
#define DAYTONA_SESSION "daytona.session:"
#define DAYTONA_PTY     "daytona.pty:"

enum { DAYTONA_TAG_MAX = 64, DAYTONA_RUNNING_MAX = 64 };

/* Checks a name given by a client. Returns false after it has answered the call. */
bool daytona_name_good(struct call *c, struct str name);
/* Answers 201 with the name of a new session or terminal. */
void daytona_answer_created(struct call *c, const char *name);
/* Whether the client asks for a WebSocket. Returns false after it has answered the call. */
bool daytona_wants_socket(struct call *c);

#endif
