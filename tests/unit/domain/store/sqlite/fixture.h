/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture of the store's tests: an open store in a directory of its own, and records to fill it
 * with. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "harness/tap.h"
#include "unit/lib/tar/scratch.h"
#include "domain/store/store.h"

struct fixture {
    struct scratch scratch;
    struct loop loop;
    struct thread_pool pool;
    struct store *store;
};

extern struct fixture fix;
extern struct err e;

void fix_dir(void);  /* the directory alone */
void fix_open(void); /* makes the directory, if it is missing, and opens the store */
void fix_close(void);

/* A sandbox made from a number: id sbx_00…N, created at N seconds. */
struct sandbox_record sandbox(int n);
struct event_record event(int n, const char *type);

void put_sandboxes(int from, int to, const char *owner, enum sandbox_state state);
void commit(struct store_txn *t); /* and waits; the test fails if it fails */
int try_commit(struct store_txn *t);
void ask(struct store_query *q); /* the same for a question, through the pool */
size_t count_of(struct store_query q);
/* Checks the chain of events: how much is wrong with it, and what first. */
size_t walk_ledger(struct ledger_walk *w);
void check_ledger(void); /* nothing is */
void turn(void);         /* one batch of the loop */

#endif
