/* A process in a sandbox with our stdin, stdout and stderr.
 *
 * On the unix socket the daemon hands over the process's own descriptors, and the connection only
 * says how it ends; on TCP everything goes through a WebSocket. Either way the first signals we get
 * are passed on and the third one makes us leave, which ends a process that was started here. A
 * connection that is lost is an error, never an exit status. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli/call.h"
#include "cli/network_options.h"

struct remote_start {
    const char *sandbox;
    char *const *argv; /* ended by NULL */
    const struct option_list *env;
    const char *user, *workdir, *timeout;
    const char *image; /* of a sandbox of its own; NULL: the host's system */
    bool stdin_, tty, background;
    bool quiet;                            /* no notes */
    const struct network_options *network; /* of a sandbox of its own, complete; NULL: none */
};

/* The start request as a JSON object. */
void remote_put(struct json_writer *w, const struct remote_start *s);

/* Runs it to its end: its exit status, or one of ours. */
int remote_exec(const struct verb *v, const struct common *common, const struct remote_start *s);

/* Runs it in a sandbox of its own, if a daemon is there and takes it: true, and *ret_status is what
 * to exit with. False, without a word: nothing has happened. */
bool remote_run(const struct verb *v, const struct remote_start *s, int *ret_status);

/* The same for a process that runs in the background. */
int remote_attach(const struct verb *v, const struct common *common, const char *sandbox,
                  const char *process, bool stdin_, bool tty, bool replay);

/* What an "exited" event means for our own exit status. */
int remote_status(const struct json *exited);

#endif
