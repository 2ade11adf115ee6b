/* SPDX-License-Identifier: Apache-2.0 */
/* Scope ownership: locals that clean themselves, and giving away that can be seen.
 *
 *     AUTO_CLOSE int fd = -1;
 *     AUTO(arena_done) struct arena a = { 0 };
 *     …
 *     ret->fd = take_fd(&fd);
 */
#ifndef BASE_OWN_H
#define BASE_OWN_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(done) __attribute__((cleanup(done)))

static inline void close_fd_(int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    errno = saved;
}
#define AUTO_CLOSE AUTO(close_fd_)

static inline void free_ptr_(void *p)
{
    free(*(void **)p);
}
#define AUTO_FREE AUTO(free_ptr_)

static inline int take_fd(int *fd)
{
    int v = *fd;

    *fd = -1;
    return v;
}

#define take_ptr(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) *at_ = &(p);                                                                 \
        __typeof__(p) v_ = *at_;                                                                   \
        *at_ = NULL;                                                                               \
        v_;                                                                                        \
    })

/* Zeroed memory for a small object or array of our own; aborts if the allocation fails. Sizes that
 * come from outside need a bounded buffer (base/buf.h) instead. */
void *new0_array(size_t n, size_t size) __attribute__((returns_nonnull));

static inline void *new0(size_t size)
{
    return new0_array(1, size);
}

/* Closes and forgets; for descriptors that are members. */
static inline void drop_fd(int *fd)
{
    close_fd_(fd);
    *fd = -1;
}

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define COUNT_OF(array)                 (sizeof(array) / sizeof((array)[0]))

#endif
