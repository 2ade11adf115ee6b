/* SPDX-License-Identifier: Apache-2.0 */
/* Events: filled in, and their JSON form, the same in answers, in streams and at the hub. */
#ifndef DOMAIN_MODEL_EVENT_H
#define DOMAIN_MODEL_EVENT_H

#include "lib/json/bind.h"
#include "domain/model/record.h"

/* {"seq":7,"time":"…","type":"sandbox.ready","sandbox_id":"sbx_…","from":"provisioning",
 *  "to":"ready","actor":{"kind":"adm","id":"uid:0"},"reason":"…","detail":{}}
 * sandbox_id, from and to are left out if the event has none. */
void event_write(struct json_writer *w, const struct event_record *v);
extern const struct json_shape event_answer, actor_answer; /* describe it */

/* An event of this moment that is no state transition. owner "": it belongs to the daemon. */
void event_fill(struct event_record *v, const struct actor *who, const char *owner,
                const char *type, const char *reason);

#endif
