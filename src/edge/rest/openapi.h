/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the OpenAPI 3.1 document from the route tables. */
#ifndef EDGE_REST_OPENAPI_H
#define EDGE_REST_OPENAPI_H

#include "base/buf.h"

int openapi_write(struct buf *out, struct err *e);

#endif
