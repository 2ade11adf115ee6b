#include "api/e2b/entry.h"

#include <stdio.h>
#include <sys/stat.h>

#include "model/time.h"

static void put(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, value);
}

static const char *type_of(uint32_t mode)
{
    return S_ISREG(mode)   ? "FILE_TYPE_FILE"
           : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY"
           : S_ISLNK(mode) ? "FILE_TYPE_SYMLINK"
                           : "FILE_TYPE_UNSPECIFIED";
}

void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT])
{
    static const char bits[] = "rwxrwxrwx";

    snprintf(ret, ENTRY_MODE_TEXT, "%c---------", S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-');
    for (unsigned i = 0; i < 9; i++)
        if (mode & (0400u >> i))
            ret[1 + i] = bits[i];
}

static void put_mode(struct json_writer *w, uint32_t mode)
{
    char text[ENTRY_MODE_TEXT];

    entry_mode_text(mode, text);
    json_key(w, STR("mode"));
    json_put_uint(w, mode & 07777);
    put(w, "permissions", str_from(text));
}

void entry_owner_put(struct json_writer *w, const char *key, uint32_t id)
{
    char number[16];

    snprintf(number, sizeof number, "%u", id);
    put(w, key, str_from(id == 0 ? "root" : id == 1000 ? "user" : number));
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

void metadata_attributes_write(struct json_writer *w, struct str attributes)
{
    struct str name, value;
    bool any = false;

    while (next_metadata(&attributes, &name, &value)) {
        if (!any) {
            json_key(w, STR("metadata"));
            json_begin_object(w);
        }
        any = true;
        json_key(w, name);
        json_put_lossy(w, value);
    }
    if (any)
        json_end_object(w);
}

void entry_write(struct json_writer *w, const struct shown_entry *s)
{
    const struct ext_entry *v = s->entry;
    char text[TIME_TEXT];

    json_begin_object(w);
    put(w, "name", v->name);
    put(w, "type", str_from(type_of(v->mode)));
    put(w, "path", str_from(s->path));
    snprintf(text, sizeof text, "%llu", (unsigned long long)v->size);
    put(w, "size", str_from(text));
    put_mode(w, v->mode);
    entry_owner_put(w, "owner", v->uid);
    entry_owner_put(w, "group", v->gid);
    time_text(v->mtime_ns, text);
    put(w, "modifiedTime", str_from(text));
    if (S_ISLNK(v->mode) && v->target.n)
        put(w, "symlinkTarget", v->target);
    metadata_attributes_write(w, v->attributes);
    json_end_object(w);
}
