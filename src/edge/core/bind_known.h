/* SPDX-License-Identifier: Apache-2.0 */
/* Binds JSON of clients of other vendors' APIs, which may send fields that this version does not
 * know. */
#ifndef EDGE_CORE_BIND_KNOWN_H
#define EDGE_CORE_BIND_KNOWN_H

#include "lib/json/bind.h"

/* As json_bind(), but ignores members that the table does not have. */
int bind_known(const struct json *v, const struct json_field *fields, size_t n, void *out,
               struct arena *a, struct err *e);
/* Whether a client set a field of JSON_KIND_ANY: not null, and not an empty list or object. */
bool bind_given(const struct json *v);

#endif
