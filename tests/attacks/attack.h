/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks: what a hostile program tries from inside a sandbox. `escape` runs them all and prints
 * TAP.
 *
 * Each attack runs in a child of its own, so that it may be killed for what it does (SIGSYS counts
 * as held) and what it changes stays in the child. It tries the real thing in its most harmless
 * form: it opens but does not write, signals but cannot kill, passes arguments that fail *after*
 * the permission check. So the whole suite can also be rehearsed where nothing confines it
 * (ESCAPE_REHEARSAL=1, inside a throw-away pid namespace), and there every attack must be seen to
 * succeed: a test that cannot fail proves nothing. tests/e2e/test_escape.py does both. */
#ifndef TESTS_ATTACK_H
#define TESTS_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum verdict { HELD, ESCAPED, NOT_APPLICABLE };

/* Whether a rehearsal can show the attack succeed. UNSEEN: not on every kernel, or not in a
 * namespace of one's own; the row says why. */
enum rehearsal { SEEN, UNSEEN };

struct attack {
    const char *name;
    enum verdict (*run)(const void *with);
    const void *with; /* the attack's row, where many attacks share one function */
    enum rehearsal rehearsal;
};

struct attack_group {
    const struct attack *attacks;
    size_t n;
};

extern const struct attack_group attacks_calls, attacks_files, attacks_leaks, attacks_mounts,
    attacks_privileges, attacks_processes, attacks_shared, attacks_sockets;

#define GROUP(array)                                                                               \
    {                                                                                              \
        array, sizeof(array) / sizeof(array)[0]                                                    \
    }
#define COUNT(array)  (sizeof(array) / sizeof(array)[0])
#define FMT(at)       __attribute__((format(printf, at, at + 1)))
#define ANSWER_LENGTH 400

/* The answer of an attack: `return held("...")`. The words go into the TAP line. */
#define held(...)           answer(HELD, __VA_ARGS__)
#define escaped(...)        answer(ESCAPED, __VA_ARGS__)
#define not_applicable(...) answer(NOT_APPLICABLE, __VA_ARGS__)
enum verdict answer(enum verdict v, const char *fmt, ...) FMT(2);

/* The usual answer: a call that returned r was refused by permission (EPERM, EACCES, EROFS, ENOSYS,
 * ENOENT, ESRCH); anything else, other errors included, means that it was let through. */
enum verdict refused(long r, const char *fmt, ...) FMT(2);

/* Facts about the outside that the caller passes in the environment; NULL if it did not. */
const char *fact(const char *name);
bool rehearsing(void);

/* What the process was born with, taken before anything else ran. */
struct birth {
    int fds[64];
    size_t n_fds;
};
extern struct birth birth;

/* Whole small file into out, always terminated; -1 and errno if it cannot be opened or read. */
ssize_t slurp(const char *path, char *out, size_t size);

#endif
