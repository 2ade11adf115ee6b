/* SPDX-License-Identifier: Apache-2.0 */
/* Lists whose links are members of what they hold: joining and leaving allocate nothing and cost
 * O(1). A zeroed `struct list` is an empty list, a zeroed `struct link` is in none; a list with
 * members must not be moved. container_of() leads from a link to its owner. */
#ifndef LIB_LOOP_LIST_H
#define LIB_LOOP_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev_, *next_;
};

struct list {
    struct link ring_; /* its next_ is the first member, its prev_ the last */
};

static inline bool link_joined(const struct link *m)
{
    return m->next_ != NULL;
}

/* The first member, or NULL. */
static inline struct link *list_first(struct list *l)
{
    return l->ring_.next_ == &l->ring_ ? NULL : l->ring_.next_;
}

/* The last member, or NULL. */
static inline struct link *list_last(struct list *l)
{
    return !l->ring_.next_ || l->ring_.next_ == &l->ring_ ? NULL : l->ring_.prev_;
}

/* The member behind m, or NULL. */
static inline struct link *list_after(struct list *l, const struct link *m)
{
    return m->next_ == &l->ring_ ? NULL : m->next_;
}

/* The member before m, or NULL. */
static inline struct link *list_before(struct list *l, const struct link *m)
{
    return m->prev_ == &l->ring_ ? NULL : m->prev_;
}

/* gcc's analyzer takes what a list holds for lost. */
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
/* Joins at the end. m must not be in a list. */
static inline void list_append(struct list *l, struct link *m)
{
    struct link *ring = &l->ring_;

    if (!ring->next_)
        ring->prev_ = ring->next_ = ring;
    m->prev_ = ring->prev_;
    m->next_ = ring;
    m->prev_->next_ = m;
    ring->prev_ = m;
}

/* Joins in front of `at`, which is in a list. m must not be in one. */
static inline void list_insert(struct link *at, struct link *m)
{
    m->prev_ = at->prev_;
    m->next_ = at;
    m->prev_->next_ = m;
    at->prev_ = m;
}

/* Removes m from its list, if it is in one. */
static inline void link_leave(struct link *m)
{
    if (!m->next_)
        return;
    m->prev_->next_ = m->next_;
    m->next_->prev_ = m->prev_;
    m->prev_ = m->next_ = NULL;
}
#pragma GCC diagnostic pop

/* Takes the first member off the list; NULL if the list is empty. */
static inline struct link *list_take(struct list *l)
{
    struct link *m = list_first(l);

    if (m)
        link_leave(m);
    return m;
}

/* The owner of a link, for LIST_EACH(); NULL for NULL. */
static inline void *list_owner_(struct link *m, size_t offset)
{
    return m ? (char *)m - offset : NULL;
}

/* A loop over the owners of a list's links: `type *item`, whose link is `member`. In the body of
 * LIST_EACH() the current item must stay in the list; in that of LIST_EACH_SAFE() the next one. */
#define LIST_EACH(type, item, list, member)                                                        \
    for (type *item = list_owner_(list_first(list), offsetof(type, member)); item;                 \
         item = list_owner_(list_after(list, &item->member), offsetof(type, member)))
#define LIST_EACH_SAFE(type, item, list, member)                                                   \
    for (type *item = list_owner_(list_first(list), offsetof(type, member)), *item##_next;         \
         item &&                                                                                   \
         (item##_next = list_owner_(list_after(list, &item->member), offsetof(type, member)),      \
         true);                                                                                    \
         item = item##_next)

/* Moves every member to the end of `to`, in order. */
static inline void list_move(struct list *from, struct list *to)
{
    for (struct link *m; (m = list_take(from));)
        list_append(to, m);
}

#endif
