/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the control plane, published to subscribers once they are on disk. */
#ifndef CONTROL_PLANE_PUBLISH_H
#define CONTROL_PLANE_PUBLISH_H

#include "domain/model/record.h"
#include "lib/loop/list.h"

struct control;
struct store_txn;

/* A subscriber gets the events that are committed after it subscribed; earlier ones are in the
 * store. */
struct event_subscriber;
typedef void event_fn(struct event_subscriber *s, const struct event_record *v);
struct event_subscriber {
    event_fn *on_event;
    struct link link_;
};
void control_subscribe(struct control *c, struct event_subscriber *s, event_fn *fn);
void event_unsubscribe(struct event_subscriber *s);
/* Publishes an event that is on disk to all subscribers. */
void control_publish(struct control *c, const struct event_record *v);
/* The same for the first event of a transaction that was committed just now: sets its number. */
void control_publish_first(struct control *c, const struct store_txn *t, struct event_record *v);

#endif
