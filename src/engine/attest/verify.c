#include "seal/verify.h"

#include <limits.h>
#include <stdlib.h>

#include "base/own.h"
#include "json/bind.h"
#include "json/reader.h"

enum { TEXT_MAX = 64 << 20, TREE_MAX = 512 << 20 };

struct listed {
    const char *path, *change, *mode, *sha256, *target;
    unsigned kind, content;
    uint64_t size, links;
};

struct manifest {
    int64_t version;
    struct json_objects files;
};

static const struct json_field file_fields[] = {
    { "path", JSON_KIND_STR, JSON_AT(struct listed, path), .required = true, .min = 1,
      .max = 4096 },
    { "change", JSON_KIND_STR, JSON_AT(struct listed, change), .required = true, .max = 16 },
    { "kind", JSON_KIND_ENUM, JSON_AT(struct listed, kind), .required = true, .names = seal_kinds },
    { "mode", JSON_KIND_STR, JSON_AT(struct listed, mode), .required = true, .max = 4 },
    { "links", JSON_KIND_UINT, JSON_AT(struct listed, links) },
    { "size", JSON_KIND_UINT, JSON_AT(struct listed, size) },
    { "content", JSON_KIND_ENUM, JSON_AT(struct listed, content), .names = seal_contents },
    { "sha256", JSON_KIND_STR, JSON_AT(struct listed, sha256), .max = 64 },
    { "target", JSON_KIND_STR, JSON_AT(struct listed, target), .max = 4096 },
};

static int read_manifest(struct str text, struct arena *a, struct manifest *m, struct err *e)
{
    static const struct json_field fields[] = {
        { "files", JSON_KIND_OBJECTS, JSON_AT(struct manifest, files), .required = true,
          .max = SEAL_FILES_MAX, JSON_FIELDS(file_fields), .item_size = sizeof(struct listed) },
    };
    const struct json_limits limits = { .bytes = TEXT_MAX, .depth = 16 };
    const struct json *tree, *list, *version;
    struct json only;
    int r = json_read(text, limits, a, &tree, e);

    if (r < 0)
        return r;
    version = json_get(tree, STR("version"));
    list = json_get(tree, STR("files"));
    if (!version || version->type != JSON_INT || version->i != 1 || !list)
        return err_set(e, ERR_INVALID, "not a manifest of version 1");
    only = *tree; /* what else it tells is not compared */
    only.list.p = list;
    only.list.n = 1;
    return json_bind(&only, fields, COUNT_OF(fields), m, a, e);
}

static const char *difference(const struct listed *l, const struct seal_file *f)
{
    if (l->kind != f->kind)
        return "is another kind of file";
    if (f->kind == SEAL_FILE && (!l->sha256 || strcmp(l->sha256, f->sha256) != 0))
        return "has another content";
    if (strtoul(l->mode, NULL, 8) != f->mode && f->kind != SEAL_LINK)
        return "has another mode";
    if (f->kind == SEAL_LINK && (!l->target || strcmp(l->target, f->target) != 0))
        return "leads elsewhere";
    return NULL;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->path, ((const struct listed *)b)->path);
}

/* "path: what", of which a terminal can act on nothing. */
static void tell(FILE *to, const char *path, const char *what)
{
    for (const char *p = path; *p; p++)
        fputc((unsigned char)*p < 32 || *p == 127 ? '?' : *p, to);
    fprintf(to, ": %s\n", what);
}

/* Both lists are sorted: one walk through both. */
static int compare(const struct listed *l, size_t n, const struct seal_files *files, FILE *to)
{
    size_t i = 0, k = 0;
    int wrong = 0;

    while ((i < n || k < files->n) && wrong < INT_MAX) {
        int order = i == n ? 1 : k == files->n ? -1 : strcmp(l[i].path, files->p[k].path);
        const char *what = order ? NULL : difference(&l[i], &files->p[k]);

        if (order < 0)
            tell(to, l[i].path, "is missing");
        else if (order > 0)
            tell(to, files->p[k].path, "is not in the manifest");
        else if (what)
            tell(to, l[i].path, what);
        wrong += order != 0 || what;
        i += order <= 0;
        k += order >= 0;
    }
    return wrong;
}

int seal_verify(struct str manifest, const struct seal_files *files, FILE *to, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    struct manifest m = { 0 };
    int r = read_manifest(manifest, &a, &m, e);

    if (r < 0)
        return r;
    if (m.files.n)
        qsort(m.files.p, m.files.n, sizeof(struct listed), by_path);
    return compare(m.files.p, m.files.n, files, to);
}
