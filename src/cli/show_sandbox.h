/* SPDX-License-Identifier: Apache-2.0 */
/* Formats parts of a sandbox for people, as show.h does for values. */
#ifndef CLI_SHOW_SANDBOX_H
#define CLI_SHOW_SANDBOX_H

#include "cli/show.h"

show_fn show_limits;       /* limits: "cpu 1, memory 256M, disk 256M, pids 128" */
show_fn show_usage;        /* usage: "cpu 0.02, memory 3.1M, disk 0, processes 2" */
show_fn show_mounts;       /* a sandbox: "/home/u/src at /src, ro; …" */
show_fn show_workspace;    /* a sandbox: "/workspace, rw, a copy of /home/u/proj" */
show_fn show_egress;       /* a sandbox: "2 destinations; 5 connections allowed, 1 denied; …" */
show_fn show_name;         /* a sandbox: its name, or its id */
show_fn show_percent;      /* processors: "12.5%", of one of them */
show_fn show_memory_use;   /* a sandbox with its use: "12M / 256M" */
show_fn show_disk_use;     /* the same for its disk */
show_fn show_process_use;  /* … and its processes */
show_fn show_next_command; /* a sandbox: the command that its state suggests */

#endif
