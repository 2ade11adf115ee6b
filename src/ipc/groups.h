/* What the launcher says to PID 1 of a prepared sandbox when it sends the control groups of the
 * owner (LAUNCH_ASSIGN): descriptors of files to which PID 1 writes "0" to enter a group. */
#ifndef IPC_GROUPS_H
#define IPC_GROUPS_H

#define IPC_GROUPS           "groups"
#define IPC_GROUPS_AND_KILLS "groups, kills" /* the last descriptor counts OOM kills instead */

#endif
