/* For clients of others' interfaces, which may be newer than we are. */
#ifndef API_BIND_KNOWN_H
#define API_BIND_KNOWN_H

#include "json/bind.h"

/* As json_bind(), but members that the table does not know are passed over. */
int bind_known(const struct json *v, const struct json_field *fields, size_t n, void *out,
               struct arena *a, struct err *e);

#endif
