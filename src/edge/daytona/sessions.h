/* Daytona's sessions: a shell that goes on, and runs one command after the other. It is a
 * background process with a tag, so the daemon keeps nothing of it in mind, and finds it again
 * after a restart; which commands there were, and what came of them, is in what it wrote. */
#ifndef API_DAYTONA_SESSIONS_H
#define API_DAYTONA_SESSIONS_H

#include "api/daytona/session_scan.h"
#include "api/processes.h"

/* A background process by the kind and name in its tag, the last of that name; referenced. NULL:
 * there is none. */
struct process *daytona_find(struct sandbox *s, const char *kind, struct str name);
/* Its name, if it is of that kind; else NULL. */
const char *daytona_tag(const struct process_view *v, const char *kind);
/* How many of that kind run. */
size_t daytona_count(struct sandbox *s, const char *kind);

#define DAYTONA_SESSION "daytona.session:"
#define DAYTONA_PTY     "daytona.pty:"

enum { DAYTONA_TAG_MAX = 64, DAYTONA_RUNNING_MAX = 64 };

/* A name that a client gives one of them. False: it is answered. */
bool daytona_name_good(struct call *c, struct str name);

/* Ends it with all it started, and answers when it is gone and forgotten. The reference becomes the
 * call's. */
void daytona_remove(struct call *c, struct process *p);

#endif
