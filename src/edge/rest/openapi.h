/* The interface described in OpenAPI 3.1, from the tables that serve it. */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "base/buf.h"

int openapi_write(struct buf *out, struct err *e);

/* The schemas of answers: one member of an object each. */
struct json_writer;
void openapi_schemas_write(struct json_writer *w);

#endif
