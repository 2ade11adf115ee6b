/* SPDX-License-Identifier: Apache-2.0 */
/* A file's metadata as JSON, in the format of E2B's envd. */
#ifndef EDGE_E2B_ENTRY_H
#define EDGE_E2B_ENTRY_H

#include "edge/core/file_walk.h"
#include "backends/records.h"
#include "lib/json/writer.h"

struct shown_entry {
    const struct backend_entry *entry; /* with START_RESOLVE */
    const char *path;                  /* absolute, as in the request */
};

/* Prefix of the extended attributes that hold a file's metadata. */
#define ENTRY_METADATA "user.e2b."

/* Writes the attributes "user.e2b.NAME=VALUE" (each terminated by NUL) as the member "metadata",
 * which is omitted if empty. Ignores other attributes. */
void entry_write_metadata(struct json_writer *w, struct str attributes);

/* Writes an object of type filesystem.EntryInfo. */
void entry_write(struct json_writer *w, const struct shown_entry *s);

#endif
