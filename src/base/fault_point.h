/* Places where a test can let this process die, as if by SIGKILL from outside, or hang.
 *
 *     hook_point("store.commit.before");
 *
 * SANDBOXER_DIE_AT="NAME:COUNT[,NAME:COUNT...]" kills the process when it is at the place NAME for
 * the COUNT-th time, counted from 1; SANDBOXER_STOP_AT stops it there, until it gets SIGCONT. Read
 * once, at the first place. Without test hooks a place is nothing. Any thread. */
#ifndef BASE_HOOK_H
#define BASE_HOOK_H

#if SANDBOXER_TEST_HOOKS
void hook_point(const char *name);
#else
#define hook_point(name) ((void)0)
#endif

#endif
