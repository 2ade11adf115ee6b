/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the parsers of image documents. Private to the module. */
#ifndef DOMAIN_OCI_DOCUMENT_H
#define DOMAIN_OCI_DOCUMENT_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"
#include "domain/oci/manifest.h"

/* Parses the whole text as a JSON object. */
int oci_document(struct str text, const char *what, struct arena *a, const struct json **ret,
                 struct err *e);

/* Whether the text has no control characters: names, types and paths reach terminals, logs and
 * headers of requests. */
bool oci_printable(struct str s);
/* Returns a text member; NULL if it is absent, null, not a text, or has control characters. */
const char *oci_text(const struct json *v, const char *key);
/* Reads a list of texts without NUL bytes; absent or null: empty. */
int oci_texts(const struct json *v, const char *key, size_t max, struct arena *a,
              struct json_strs *ret, struct err *e);
int oci_descriptor(const struct json *v, const char *what, struct oci_descriptor *ret,
                   struct err *e);

#endif
