/* An event as JSON: the one way it looks outside, in answers, in streams and at the hub. */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include "json/writer.h"
#include "model/record.h"

/* {"seq":7,"time":"…","type":"sandbox.ready","sandbox_id":"sbx_…","from":"provisioning",
 *  "to":"ready","actor":{"kind":"adm","id":"uid:0"},"reason":"…","detail":{}}
 * sandbox_id, from and to are left out where there is none. */
void event_write(struct json_writer *w, const struct event_record *v);

#endif
