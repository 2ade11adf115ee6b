/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/profile/dirs.h"
#include "domain/profile/words.h"
#include "lib/yaml/file.h"

enum {
    SIMILAR_MAX = 4,                                     /* more changes make another name */
    SHOWN_MAX = 80,                                      /* of a name in a message */
    PROBLEMS_MAX = CATALOG_FILES_MAX + CATALOG_DIRS_MAX, /* one per file, one per directory */
    MEMORY_MAX = 32 << 20,
};

/* A catalog that is being made: its entries in the order of discovery. */
struct catalog_loading {
    struct catalog *c;
    size_t rank;  /* of the directory: the highest takes precedence */
    size_t files; /* read so far */
};

/* The limits of this module guarantee that everything fits: NULL means that the machine is out of
 * memory. */
static void *abort_if_null(void *p)
{
    if (!p)
        abort();
    return p;
}

static const struct catalog_problem *add_problem(struct catalog *c, const char *file,
                                                 const struct err *e)
{
    struct catalog_problem *p = &c->problems[c->problem_count++];

    *p = (struct catalog_problem){ .file = file, .err = *e };
    return p;
}

static int is_profile_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && str_ends(str_from(entry->d_name), STR(".yaml"));
}

/* Loads files in the order of their names, so that the same files always make the same catalog. */
static int load_files(struct catalog_loading *l, int fd, const char *dir, unsigned flags,
                      struct err *e)
{
    struct dirent **names = NULL;
    int n = scandirat(fd, ".", &names, is_profile_file, alphasort);
    char path[PATH_MAX];
    int r = 0;

    if (n < 0)
        return err_sys(e, "cannot be listed");
    for (int i = 0; i < n; i++) {
        struct catalog_entry entry = { .rank_ = l->rank };
        struct err why = { 0 };

        if (l->files++ >= CATALOG_FILES_MAX) {
            r = err_set(e, ERR_TOO_BIG, "more than %d profiles; '%s' and later files are not read",
                        CATALOG_FILES_MAX, names[i]->d_name);
            break;
        }
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        entry.file = abort_if_null(arena_dup(&l->c->arena_, str_from(path)));
        if (profile_read_file(fd, names[i]->d_name, flags, &entry.profile, &entry.name, &why) < 0)
            entry.problem = add_problem(l->c, entry.file, &why);
        if (entry.name.version)
            l->c->entries[l->c->n++] = entry;
    }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return r;
}

static int load_dir(struct catalog_loading *l, const char *dir, struct err *e)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned flags = YAML_FILE_NO_LINK;
    char shipped[PATH_MAX];
    struct stat st;
    int r;

    /* A user who can write to the directory of the shipped profiles could replace this program. */
    dirs_shipped(shipped, sizeof shipped);
    if (strcmp(dir, shipped) == 0)
        flags |= YAML_FILE_ANY_OWNER;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "cannot be opened");
    r = flags & YAML_FILE_ANY_OWNER ? 0 : yaml_file_trusted(&st, e);
    return r < 0 ? r : load_files(l, fd, dir, flags, e);
}

static int compare_names(const struct profile_name *a, const struct profile_name *b)
{
    int order = strcmp(a->id, b->id);

    return order ? order : (a->version > b->version) - (a->version < b->version);
}

static int compare_catalog_entries(const void *pa, const void *pb)
{
    const struct catalog_entry *a = pa, *b = pb;
    int order = compare_names(&a->name, &b->name);

    if (order == 0)
        order = (a->rank_ > b->rank_) - (a->rank_ < b->rank_);
    return order ? order : strcmp(a->file, b->file);
}

static void drop_shadowed_entry(struct catalog *c, const struct catalog_entry *old,
                                const struct catalog_entry *by)
{
    struct err e;

    if (old->rank_ == by->rank_ && !old->problem) {
        (void)err_set(&e, ERR_CONFLICT, "%s@%u is already in %s", old->name.id, old->name.version,
                      by->file);
        add_problem(c, old->file, &e);
    }
    profile_unref(old->profile);
}

/* Of entries with the same name, keeps the first file of the last directory. */
static void keep_one_each(struct catalog *c)
{
    size_t kept = 0;

    qsort(c->entries, c->n, sizeof *c->entries, compare_catalog_entries);
    for (size_t i = 0; i < c->n; i++) {
        struct catalog_entry *now = &c->entries[i], *last = kept ? &c->entries[kept - 1] : NULL;

        if (!last || compare_names(&last->name, &now->name) != 0) {
            c->entries[kept++] = *now;
        } else if (now->rank_ > last->rank_) {
            drop_shadowed_entry(c, last, now);
            *last = *now;
        } else {
            drop_shadowed_entry(c, now, last);
        }
    }
    c->n = kept;
}

int catalog_load(struct json_strs dirs, struct catalog **ret, struct err *e)
{
    struct arena a = ARENA_INIT(MEMORY_MAX);
    struct catalog_loading l = { 0 };

    if (dirs.n > CATALOG_DIRS_MAX)
        return err_set(e, ERR_TOO_BIG, "%zu profile directories given; at most %d are allowed",
                       dirs.n, CATALOG_DIRS_MAX);
    l.c = abort_if_null(arena_alloc(&a, sizeof *l.c));
    l.c->entries = abort_if_null(arena_array(&a, CATALOG_FILES_MAX, sizeof *l.c->entries));
    l.c->problems = abort_if_null(arena_array(&a, PROBLEMS_MAX, sizeof *l.c->problems));
    l.c->arena_ = a;
    for (l.rank = 0; l.rank < dirs.n; l.rank++) {
        struct err why = { 0 };

        if (load_dir(&l, dirs.p[l.rank], &why) < 0)
            add_problem(l.c, abort_if_null(arena_dup(&l.c->arena_, str_from(dirs.p[l.rank]))),
                        &why);
    }
    keep_one_each(l.c);
    *ret = l.c;
    return 0;
}

void catalog_free(struct catalog *c)
{
    struct arena a;

    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        profile_unref(c->entries[i].profile);
    a = c->arena_; /* the catalog itself is on it */
    arena_done(&a);
}

void catalog_freep_(struct catalog **c)
{
    catalog_free(*c);
}

int catalog_reload(struct catalog **c, struct json_strs dirs, struct err *e)
{
    struct catalog *new;
    int r = catalog_load(dirs, &new, e);

    if (r < 0)
        return r;
    catalog_free(*c);
    *c = new;
    return 0;
}

#define PREFIX "profile."

/* Parses "profile.x@2", or "x@2" for short. The version is UINT32_MAX, above all valid ones, if it is left out. */
static int parse_profile_name(struct str text, struct profile_name *ret, struct err *e)
{
    struct str id, version = str_cut(text, '@', &id);
    uint64_t number = UINT32_MAX;
    bool is_short = word_name(id);

    if ((!is_short && !word_profile(id)) ||
        snprintf(ret->id, sizeof ret->id, "%s" STR_FMT, is_short ? PREFIX : "", STR_ARG(id)) >=
            (int)sizeof ret->id)
        return err_set(e, ERR_INVALID,
                       "'%.*s': a profile name must be NAME, profile.NAME or profile.NAME@VERSION; "
                       "`sandboxer profiles list` shows all",
                       text.n < SHOWN_MAX ? (int)text.n : SHOWN_MAX, text.n ? text.p : "");
    if (version.p && (!str_to_u64(version, &number) || number < 1 || number > PROFILE_VERSION_MAX))
        return err_set(e, ERR_INVALID,
                       "%s: the version after '@' must be a whole number from 1 to %d", ret->id,
                       PROFILE_VERSION_MAX);
    ret->version = (uint32_t)number;
    return 0;
}

/* The last entry that is not greater than the name, or NULL. */
static const struct catalog_entry *last_until(const struct catalog *c,
                                              const struct profile_name *name)
{
    size_t from = 0, to = c->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (compare_names(&c->entries[middle].name, name) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from ? &c->entries[from - 1] : NULL;
}

/* The profile whose name is most like the wanted one; NULL: none is like it. */
static const char *find_similar(const struct catalog *c, const char *wanted)
{
    const char *best = NULL;
    unsigned least = SIMILAR_MAX;

    for (size_t i = 0; i < c->n; i++) {
        unsigned n = str_distance(str_from(wanted), str_from(c->entries[i].name.id));

        if (n < least && n <= strlen(wanted + strlen(PREFIX)) / 2) {
            least = n;
            best = c->entries[i].name.id;
        }
    }
    return best;
}

static int fail_unknown_profile(const struct catalog *c, const char *wanted, struct err *e)
{
    const char *similar = find_similar(c, wanted);

    return err_set(e, ERR_NOT_FOUND, "there is no %s; `sandboxer profiles list` shows them%s%s%s",
                   wanted, similar ? " (did you mean " : "", similar ? similar : "",
                   similar ? "?)" : "");
}

int catalog_find(const struct catalog *c, struct str name, struct profile **ret, struct err *e)
{
    const struct catalog_entry *found;
    struct profile_name wanted;
    int r = parse_profile_name(name, &wanted, e);

    if (r < 0)
        return r;
    found = last_until(c, &wanted);
    if (!found || strcmp(found->name.id, wanted.id) != 0)
        return fail_unknown_profile(c, wanted.id, e);
    if (wanted.version != UINT32_MAX && found->name.version != wanted.version)
        return err_set(e, ERR_NOT_FOUND, "there is no version %u of %s", wanted.version, wanted.id);
    if (found->problem)
        return err_set(e, ERR_INVALID, "%s cannot be used: %s: %s", wanted.id, found->file,
                       found->problem->err.msg);
    *ret = profile_ref(found->profile);
    return 0;
}
