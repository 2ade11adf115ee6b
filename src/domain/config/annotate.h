/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration as a text for people: with the source of each value, or as comments to start
 * from. */
#ifndef DOMAIN_CONFIG_ANNOTATE_H
#define DOMAIN_CONFIG_ANNOTATE_H

#include "domain/config/config.h"

/* Adds to each field of a text of config_write() (CONFIG_YAML) the file or variable that its value
 * comes from: "  # from FILE". A field without one has its default. `file` as for config_load(). */
int config_annotate(const char *file, struct str yaml, struct buf *out, struct arena *a,
                    struct err *e);

/* All fields with their defaults, each line a comment. */
int config_write_defaults(struct buf *out, struct arena *a, struct err *e);

#endif
