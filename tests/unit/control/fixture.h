/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture of the control plane's tests: a whole control plane over the fake backend, in a
 * directory of its own, which can be closed and opened again like a daemon that is restarted. */
#ifndef TESTS_CONTROL_FIXTURE_H
#define TESTS_CONTROL_FIXTURE_H

#include "control/control.h"
#include "harness/fake_backend.h"
#include "harness/tap.h"
#include "unit/lib/tar/scratch.h"

extern struct fixture {
    struct scratch scratch;
    struct loop loop;
    struct thread_pool work;
    struct config config;
    struct control *control;
    struct caller caller;
    int (*egress_worker)(void *user, int *ret, uint64_t *ret_id, struct err *e); /* NULL: none */
    void (*end_egress_worker)(void *user, uint64_t id);
    int (*egress_places)(void *user, uint64_t id, const struct gate_place *list, size_t n,
                         struct control_request *q, struct err *e); /* NULL: none */
    void (*cancel)(void *user, struct control_request *q);
} fix;
extern struct err e;

void plane_open(void); /* and waits until it is open */
void plane_close(void);
/* One batch of the loop, or a moment: the awaited event may have come in the turn of the condition
 * itself. */
void turn(void);
#define WAIT_FOR(cond)                                                                             \
    while (!(cond))                                                                                \
    turn()

/* A ready sandbox of the profile that uses the fake backend; referenced. */
struct sandbox *new_sandbox(void);
struct sandbox *find_sandbox(const char *id); /* referenced; NULL */
const char *id_of(struct sandbox *s);
void destroy(struct sandbox *s); /* and waits */

/* How many events of this type the store has. */
size_t count_events(const char *type);

#endif
