/* What the parsers of an image's documents share. Private to the module. */
#ifndef OCI_DOCUMENT_H
#define OCI_DOCUMENT_H

#include "base/arena.h"
#include "base/err.h"
#include "json/value.h"
#include "oci/manifest.h"

/* The whole text as a JSON object. */
int oci_document(struct str text, const char *what, struct arena *a, const struct json **ret,
                 struct err *e);

/* A member that is a text without control characters; NULL: it is not there, null or no text. */
const char *oci_text(const struct json *v, const char *key);
/* A list of texts, all of them such; not there or null: none. */
int oci_texts(const struct json *v, const char *key, size_t max, struct arena *a,
              struct json_strs *ret, struct err *e);
int oci_descriptor(const struct json *v, const char *what, struct oci_descriptor *ret,
                   struct err *e);

#endif
