/* What preload.c and those who start the server agree on. */
#ifndef SSH_PRELOAD_H
#define SSH_PRELOAD_H

/* The descriptor of the keys' text when the program begins, and the name of the file that the
 * server believes it to be. No such file needs to be there. */
#define SSH_KEYS_FD   4
#define SSH_KEYS_FILE "/sandboxer/keys"
enum { SSH_KEYS_MAX = 32 << 10 };

#endif
