/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/files.h"

#include <limits.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/json/bind.h"
#include "lib/json/reader.h"

enum { TEXT_MAX = 64 << 20, TREE_MAX = 512 << 20 };

struct attest_listed_file {
    const char *path, *change, *mode, *sha256, *target;
    unsigned kind, content;
    uint64_t size, links;
};

struct attest_manifest {
    int64_t version;
    struct json_objects files;
};

static const struct json_field file_fields[] = {
    { "path", JSON_KIND_STR, JSON_AT(struct attest_listed_file, path), .required = true, .min = 1,
      .max = 4096 },
    { "change", JSON_KIND_STR, JSON_AT(struct attest_listed_file, change), .required = true,
      .max = 16 },
    { "kind", JSON_KIND_ENUM, JSON_AT(struct attest_listed_file, kind), .required = true,
      .names = attest_kinds },
    { "mode", JSON_KIND_STR, JSON_AT(struct attest_listed_file, mode), .required = true, .max = 4 },
    { "links", JSON_KIND_UINT, JSON_AT(struct attest_listed_file, links) },
    { "size", JSON_KIND_UINT, JSON_AT(struct attest_listed_file, size) },
    { "content", JSON_KIND_ENUM, JSON_AT(struct attest_listed_file, content),
      .names = attest_contents },
    { "sha256", JSON_KIND_STR, JSON_AT(struct attest_listed_file, sha256), .max = 64 },
    { "target", JSON_KIND_STR, JSON_AT(struct attest_listed_file, target), .max = 4096 },
};

static int read_attest_manifest(struct str text, struct arena *a, struct attest_manifest *m,
                                struct err *e)
{
    static const struct json_field fields[] = {
        { "files", JSON_KIND_OBJECTS, JSON_AT(struct attest_manifest, files), .required = true,
          .max = ATTEST_FILES_MAX, JSON_FIELDS(file_fields),
          .item_size = sizeof(struct attest_listed_file) },
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
    only = *tree; /* its other members are not compared */
    only.list.p = list;
    only.list.n = 1;
    return json_bind(&only, fields, COUNT_OF(fields), m, a, e);
}

static const char *describe_difference(const struct attest_listed_file *l,
                                       const struct attest_file *f)
{
    if (l->kind != f->kind)
        return "has a different file type";
    if (f->kind == ATTEST_FILE && (!l->sha256 || strcmp(l->sha256, f->sha256) != 0))
        return "has different content";
    if (strtoul(l->mode, NULL, 8) != f->mode && f->kind != ATTEST_LINK)
        return "has a different mode";
    if (f->kind == ATTEST_LINK && (!l->target || strcmp(l->target, f->target) != 0))
        return "has a different link target";
    return NULL;
}

static int compare_listed_paths(const void *a, const void *b)
{
    return strcmp(((const struct attest_listed_file *)a)->path,
                  ((const struct attest_listed_file *)b)->path);
}

/* Prints "path: what" without control characters. */
static void print_difference(FILE *to, const char *path, const char *what)
{
    for (const char *p = path; *p; p++)
        fputc((unsigned char)*p < 32 || *p == 127 ? '?' : *p, to);
    fprintf(to, ": %s\n", what);
}

/* Both lists are sorted: one walk through both. */
static int compare_with_manifest(const struct attest_listed_file *l, size_t n,
                                 const struct attest_files *files, FILE *to)
{
    size_t i = 0, k = 0;
    int wrong = 0;

    while ((i < n || k < files->n) && wrong < INT_MAX) {
        int order = i == n ? 1 : k == files->n ? -1 : strcmp(l[i].path, files->p[k].path);
        const char *what = order ? NULL : describe_difference(&l[i], &files->p[k]);

        if (order < 0)
            print_difference(to, l[i].path, "is missing");
        else if (order > 0)
            print_difference(to, files->p[k].path, "is not in the manifest");
        else if (what)
            print_difference(to, l[i].path, what);
        wrong += order != 0 || what;
        i += order <= 0;
        k += order >= 0;
    }
    return wrong;
}

int attest_verify(struct str manifest, const struct attest_files *files, FILE *to, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    struct attest_manifest m = { 0 };
    int r = read_attest_manifest(manifest, &a, &m, e);

    if (r < 0)
        return r;
    if (m.files.n)
        qsort(m.files.p, m.files.n, sizeof(struct attest_listed_file), compare_listed_paths);
    return compare_with_manifest(m.files.p, m.files.n, files, to);
}
