/* A descriptor becoming readable or writable. Level-triggered: as long as the condition holds and
 * is wanted, every batch calls again, so a callback need not read or write everything at once.
 *
 * The descriptor stays the caller's: stop the source first, close afterwards.
 *
 * Descriptors that epoll refuses (regular files, /dev/null: what a shell redirects into a program)
 * are ready for whatever is wanted in every batch, as they are for poll(). */
#ifndef LOOP_FD_H
#define LOOP_FD_H

#include "loop/loop.h"

enum loop_event {
    LOOP_READ = 1 << 0,
    LOOP_WRITE = 1 << 1,
    LOOP_HALF = 1 << 2, /* the peer will write no more; for those who are not reading */

    /* Told whenever anything is wanted, never asked for. */
    LOOP_HUP = 1 << 3, /* both directions are dead; what was sent before can still be read */
    LOOP_ERROR = 1 << 4,
};

struct loop_fd;
typedef void loop_fd_fn(struct loop_fd *s, unsigned events);

struct loop_fd {
    struct loop *loop;
    int fd;
    unsigned want; /* LOOP_READ | LOOP_WRITE | LOOP_HALF */
    unsigned ready_;
    bool on_, always_ready_;
    loop_fd_fn *call_;
    uint64_t stirred_; /* the last batch in which it was ready, or what it wants changed */
    struct link ready_link_, always_link_;
};

/* want may be 0: started, and paused. */
int loop_fd_start(struct loop *l, struct loop_fd *s, int fd, unsigned want, loop_fd_fn *call,
                  struct err *e);

/* Changes what is wanted; events of this batch that are no longer wanted are not told.
 *
 * With 0 the descriptor leaves epoll altogether and nothing is told, not even LOOP_HUP: epoll would
 * otherwise report a dead peer again and again to an owner who asked for silence. It is told when
 * something is wanted again. LOOP_HUP, LOOP_ERROR and LOOP_HALF last; who is told must stop the
 * source or want less, or is called in every batch. -ERR_CONFLICT if the source is stopped. */
int loop_fd_want(struct loop_fd *s, unsigned want, struct err *e);

void loop_fd_stop(struct loop_fd *s);
/* The same for an owner who closes the descriptor next, before the loop can wait again: closing
 * takes it out of epoll, which saves a system call. Only where no duplicate of it stays open. */
void loop_fd_stop_to_close(struct loop_fd *s);

/* Whether nothing of what is wanted had happened when this batch began. Costs no system call; false
 * where it is not known: what is wanted has changed since, or there was more than a batch takes. */
bool loop_fd_was_quiet(const struct loop_fd *s);

void loop_fd_collect_(struct loop_fd *s, uint32_t events);
void loop_fd_collect_always_(struct loop *l);
int loop_fd_run_(struct loop *l);

#endif
