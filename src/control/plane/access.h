/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the control plane that every unit of it and the edge may use. */
#ifndef CONTROL_PLANE_ACCESS_H
#define CONTROL_PLANE_ACCESS_H

#include "base/err.h"

struct catalog;
struct control;
struct loop;
struct metrics;
struct store;
struct thread_pool;

struct store *control_store(struct control *c);
struct loop *control_loop(struct control *c);
struct thread_pool *control_work(struct control *c);
struct catalog *control_catalog(struct control *c);
struct metrics *control_metrics(struct control *c);
/* A descriptor of an unnamed file in the state directory. */
int control_scratch(struct control *c, struct err *e);

#endif
