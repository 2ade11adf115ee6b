/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of the API. */
#ifndef EDGE_CORE_METERS_H
#define EDGE_CORE_METERS_H

#include <stddef.h>

#include "base/err.h"

struct api;
struct call;

/* In the order of the metric's label; classes of status first. */
enum call_outcome { CALL_2XX, CALL_3XX, CALL_4XX, CALL_5XX, CALL_STREAMED, CALL_LEFT };

int meters_register(struct api *a, struct err *e);
void meters_ended(struct call *c, enum call_outcome o); /* the first call per request counts */

#endif
