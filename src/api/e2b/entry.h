/* A file as E2B's clients see it. */
#ifndef API_E2B_ENTRY_H
#define API_E2B_ENTRY_H

#include "extensions/records.h"
#include "json/writer.h"

struct shown_entry {
    const struct ext_entry *entry; /* with EXT_RESOLVE */
    const char *path;              /* absolute, as it was asked for */
};

/* An attribute's name is that of metadata behind this. */
#define ENTRY_METADATA "user.e2b."

/* "user.e2b.NAME=VALUE", each ended by NUL, as a member "metadata"; others, and none, are nothing.
 */
void metadata_attributes_write(struct json_writer *w, struct str attributes);

enum { ENTRY_MODE_TEXT = 11 };
/* "drwxr-xr-x", as Go writes it: a link is an L. */
void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT]);
/* A member with the name of who owns it, of those that every sandbox has; else the number. */
void entry_owner_put(struct json_writer *w, const char *key, uint32_t id);

/* The object's members are those of filesystem.EntryInfo. */
void entry_write(struct json_writer *w, const struct shown_entry *s);

#endif
