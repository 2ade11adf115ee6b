/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/entry.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/rfc3339.h"

/* Of a link: the type of its final target, as envd reports it. */
static const char *entry_type_name(const struct backend_entry *v)
{
    uint32_t mode = S_ISLNK(v->mode) ? v->target_mode : v->mode;

    return S_ISREG(mode)   ? "FILE_TYPE_FILE"
           : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY"
                           : "FILE_TYPE_UNSPECIFIED";
}

static bool next_metadata(struct str *rest, struct str *name, struct str *value)
{
    while (rest->n) {
        struct str one = { rest->p, str_find(*rest, '\0') };

        *rest = (struct str){ rest->p + one.n, rest->n - one.n };
        if (rest->n)
            *rest = (struct str){ rest->p + 1, rest->n - 1 };
        if (!str_starts(one, STR(ENTRY_METADATA)))
            continue;
        *value = str_cut(one, '=', name);
        *name = (struct str){ name->p + strlen(ENTRY_METADATA), name->n - strlen(ENTRY_METADATA) };
        if (name->n && value->p && str_is_utf8(*name))
            return true;
    }
    return false;
}

void entry_write_metadata(struct json_writer *w, struct str attributes)
{
    struct str name, value;
    bool any = false;

    while (next_metadata(&attributes, &name, &value)) {
        if (!any)
            json_field_begin_object(w, "metadata");
        any = true;
        json_key(w, name);
        json_put_lossy(w, value);
    }
    if (any)
        json_end_object(w);
}

void entry_write(struct json_writer *w, const struct shown_entry *s)
{
    const struct backend_entry *v = s->entry;
    char text[TIME_TEXT];

    json_begin_object(w);
    json_field_lossy(w, "name", v->name);
    json_field_text(w, "type", entry_type_name(v));
    json_field_text(w, "path", s->path);
    snprintf(text, sizeof text, "%llu", (unsigned long long)v->size);
    json_field_text(w, "size", text);
    json_field_uint(w, "mode", v->mode & 07777);
    entry_mode_text(v->mode, text);
    json_field_text(w, "permissions", text);
    entry_write_owner(w, "owner", v->uid);
    entry_write_owner(w, "group", v->gid);
    time_text(v->mtime_ns, text);
    json_field_text(w, "modifiedTime", text);
    if (S_ISLNK(v->mode) && v->target.n)
        json_field_lossy(w, "symlinkTarget", v->target);
    entry_write_metadata(w, v->attributes);
    json_end_object(w);
}
