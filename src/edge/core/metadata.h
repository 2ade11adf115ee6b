/* SPDX-License-Identifier: Apache-2.0 */
/* Maps clients' metadata to labels. Names that are invalid as label names are escaped: "userId"
 * becomes the label "e2b/user/49d". */
#ifndef EDGE_CORE_METADATA_H
#define EDGE_CORE_METADATA_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"
#include "lib/json/writer.h"

/* Converts a request's metadata to labels, on the arena. */
int metadata_to_labels(const struct json_map *metadata, struct arena *a, struct json_map *ret,
                       struct err *e);

/* Reads a filter, decoded once as a query parameter: "user=a%2520b&app=x". */
int metadata_filter(struct str text, struct arena *a, struct json_map *ret, struct err *e);

/* Writes labels as a metadata object. */
void metadata_write(struct json_writer *w, const struct json_map *labels);

#endif
