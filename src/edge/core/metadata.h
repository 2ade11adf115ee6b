/* E2B's metadata, which are our labels. A name that labels cannot have is written in another way:
 * "userId" is the label "e2b/user/49d". */
#ifndef API_E2B_METADATA_H
#define API_E2B_METADATA_H

#include "base/arena.h"
#include "base/err.h"
#include "json/bind.h"
#include "json/writer.h"

/* Of a request; on the arena. */
int metadata_to_labels(const struct json_map *metadata, struct arena *a, struct json_map *ret,
                       struct err *e);

/* A filter as its clients write it, once decoded as a part of a query: "user=a%2520b&app=x". */
int metadata_filter(struct str text, struct arena *a, struct json_map *ret, struct err *e);

/* The labels as an object of metadata. */
void metadata_write(struct json_writer *w, const struct json_map *labels);

#endif
