/* What a sandbox reaches, as clients see it. */
#ifndef API_EGRESS_H
#define API_EGRESS_H

#include "control/control.h"
#include "json/writer.h"

void egress_write(struct json_writer *w, const struct sandbox_egress *x); /* members of an object */

#endif
