/* SPDX-License-Identifier: Apache-2.0 */
/* Being woken by another thread. Any thread posts; the callback runs on the loop, once for any
 * number of posts before it, and finds out itself what there is to do. */
#ifndef LIB_LOOP_WAKE_H
#define LIB_LOOP_WAKE_H

#include "lib/loop/fd.h"

struct loop_wake;
typedef void loop_wake_fn(struct loop_wake *s);

struct loop_wake {
    struct loop *loop;
    struct loop_fd fd_;
    loop_wake_fn *call_;
};

int loop_wake_start(struct loop *l, struct loop_wake *s, loop_wake_fn *call, struct err *e);

/* From any thread, also from a signal handler, between start and stop: the source must not be
 * stopped while another thread may still post. Memory that a thread wrote before the post is
 * visible to the callback. */
void loop_wake_post(struct loop_wake *s);

void loop_wake_stop(struct loop_wake *s);

#endif
