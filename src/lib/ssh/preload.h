/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between preload.c and the code that starts the server. */
#ifndef LIB_SSH_PRELOAD_H
#define LIB_SSH_PRELOAD_H

/* The descriptor of the keys' text when the program begins, and the name of the file that the
 * server believes it to be. No such file needs to be there. */
#define SSH_KEYS_FD   4
#define SSH_KEYS_FILE "/sandboxer/keys"
enum { SSH_KEYS_MAX = 32 << 10 };

#endif
