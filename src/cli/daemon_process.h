/* SPDX-License-Identifier: Apache-2.0 */
/* The process of the daemon that listens on a unix socket, as the kernel names it: never by a name
 * or a file with a number. */
#ifndef CLI_DAEMON_PROCESS_H
#define CLI_DAEMON_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "cli/connect.h"

struct daemon_process {
    pid_t pid; /* of the supervisor; of systemd, where that opened the socket */
    uid_t uid;
    int pidfd; /* still that process: it listened after this was opened */
};
#define DAEMON_PROCESS_NONE ((struct daemon_process){ .pidfd = -1 })

/* -ERR_NOT_FOUND if no process listens there, -ERR_DENIED if this user may not connect. */
int daemon_process_find(const struct daemon_address *at, struct daemon_process *ret, struct err *e);
void daemon_process_done(struct daemon_process *p);

/* Sends a signal. -ERR_DENIED: it belongs to another user. */
int daemon_process_signal(const struct daemon_process *p, int sig, struct err *e);

/* Waits for its end: -ERR_TIMEOUT if it lives on at the deadline (clock_mono()). */
int daemon_process_await_end(const struct daemon_process *p, int64_t deadline, struct err *e);

/* The unit of systemd that a process belongs to: "sandboxerd.service"; `ret_user`: of the manager of
 * a user. False: none. */
bool daemon_process_unit(pid_t pid, char *out, size_t cap, bool *ret_user);

#endif
