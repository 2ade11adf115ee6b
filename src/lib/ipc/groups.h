/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's message to PID 1 of a prepared sandbox with the control groups of its owner
 * (LAUNCH_ASSIGN): descriptors of files to which PID 1 writes "0" to enter a group. */
#ifndef LIB_IPC_GROUPS_H
#define LIB_IPC_GROUPS_H

/* The last descriptors are files that count instead, each with its letter: "groups", "groups k",
 * "groups kc". */
#define IPC_GROUPS       "groups"
#define IPC_GROUPS_KILLS 'k' /* OOM kills */
#define IPC_GROUPS_CPU   'c' /* processor time */

#endif
