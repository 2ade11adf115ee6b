/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/daemon.h"
#include "cli/suggest.h"
#include "lib/json/reader.h"

enum { RECIPES_BYTES = 16 << 20, RECIPES_DEPTH = 8 };

/* Only the daemon's program reads YAML. */
static int read_printed_recipes(struct buf *out, struct err *e)
{
    AUTO_CLOSE int file = memfd_create("agents", MFD_CLOEXEC);
    char *room;
    ssize_t n;
    int status;

    if (file < 0)
        return err_sys(e, "reading the recipes of agents");
    status = daemon_print("--agents", NULL, file, e);
    if (status)
        return status < 0 ? status
                          : err_set(e, ERR_INVALID,
                                    "the recipes of agents cannot be read (see the "
                                    "message above)");
    if (buf_room(out, RECIPES_BYTES, &room) < 0)
        return err_set(e, ERR_TOO_BIG, "the recipes of agents have more than %d bytes",
                       RECIPES_BYTES);
    n = pread(file, room, RECIPES_BYTES, 0);
    if (n < 0)
        return err_sys(e, "reading the recipes of agents");
    buf_grew(out, (size_t)n);
    return 0;
}

int agents_read(struct arena *a, struct json_objects *ret, struct err *e)
{
    static const struct json_field list = { .name = "agents",
                                            .kind = JSON_KIND_OBJECTS,
                                            .size = sizeof(struct json_objects),
                                            .fields = agent_entry_fields,
                                            .field_count = 4,
                                            .item_size = sizeof(struct agent_entry) };
    AUTO(buf_done) struct buf text = BUF_INIT(RECIPES_BYTES + 1);
    const struct json_limits limits = { .bytes = RECIPES_BYTES, .depth = RECIPES_DEPTH };
    const struct json *tree;
    struct json named, all = { .type = JSON_OBJECT, .list = { &named, 1 } };
    int r = read_printed_recipes(&text, e);

    if (r >= 0)
        r = json_read(buf_str(&text), limits, a, &tree, e);
    if (r < 0)
        return r;
    named = *tree;
    named.key = STR("agents");
    return json_bind(&all, &list, 1, ret, a, e);
}

static int fail_unknown_recipe(const struct agent *a, const struct json_objects *all,
                               const char *name)
{
    struct suggestion s = { .typed = str_from(name) };
    char similar[SUGGESTION_TEXT_MAX];
    const struct agent_entry *entries = all->p;
    struct stat st;
    bool is_dir = stat(name, &st) == 0 && S_ISDIR(st.st_mode);

    for (size_t i = 0; i < all->n; i++)
        suggestion_add(&s, str_from(entries[i].name), str_from(entries[i].name));
    suggestion_write(&s, "", similar, sizeof similar);
    verb_misused(a->verb,
                 "there is no recipe '%.64s'%s 'sandboxer agent --list' shows them, and "
                 "'sandboxer agent -- COMMAND' runs any command%s%.64s%s",
                 name, similar[0] ? similar : ";", is_dir ? "; for the directory, write './" : "",
                 is_dir ? name : "", is_dir ? "'" : "");
    return EXIT_MISSING;
}

int agent_find_recipe(struct agent *a, const char *name)
{
    struct json_objects all;
    const struct agent_entry *entries;
    struct err e;

    if (agents_read(&a->arena, &all, &e) < 0)
        return verb_failed(a->verb, "%s", e.msg);
    entries = all.p;
    for (size_t i = 0; i < all.n && !a->entry; i++)
        if (strcmp(entries[i].name, name) == 0)
            a->entry = &entries[i];
    if (!a->entry)
        return fail_unknown_recipe(a, &all, name);
    if (a->entry->problem)
        return verb_misused(a->verb, "the recipe '%s' cannot be used: %s: %s", name, a->entry->file,
                            a->entry->problem);
    return 0;
}
