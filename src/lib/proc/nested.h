/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process is in a pid namespace below the one of /proc, as all processes of sandboxes
 * are. */
#ifndef LIB_PROC_NESTED_H
#define LIB_PROC_NESTED_H

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* 1, 0, or an error: it is not known, because the process ended or /proc hides it. */
int nested_check(pid_t pid, struct err *e);

/* The same of the process that connected a unix socket, `pid` by the socket's credentials. -ERR_DENIED
 * if it has ended, since another process may have its number. A kernel before Linux 6.5 does not
 * report that: there the number is believed, which is wrong only if the process left its connection to another
 * one, ended, and a process outside of every sandbox was given the number. */
int nested_check_peer(int sock, pid_t pid, struct err *e);

/* The same of the text of /proc/PID/status: NSpid has one number for each namespace. */
int nested_parse(struct str status, struct err *e);

#endif
