/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_SIFT: lists the files of an archive of images. The headers are read once to detect the
 * format; then the relevant files are hashed. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/worker.h"
#include "engine/layers/parts.h"
#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "lib/tar/reader.h"
#include "base/str.h"

static bool is_part(const struct part_record *p, uint32_t kind, uint64_t archive)
{
    static const char prefix[] = "sha256:";
    const char *hex = p->digest + sizeof prefix - 1;

    if (!memchr(p->name, '\0', sizeof p->name) || !memchr(p->digest, '\0', sizeof p->digest))
        return false;
    if (strncmp(p->digest, prefix, sizeof prefix - 1) != 0 ||
        strspn(hex, "0123456789abcdef") != 64 || hex[64] || p->at > archive ||
        p->size > archive - p->at)
        return false;
    return kind == PARTS_ROOT ? !p->name[0] && p->at == 0 && p->size == archive : p->name[0] != 0;
}

int parts_check(const struct archive_parts *parts, size_t bytes, uint64_t archive, struct err *e)
{
    if (bytes != sizeof *parts || parts->kind == 0 || parts->kind >= PARTS_KIND_END_ ||
        parts->n > PARTS_MAX || (parts->kind == PARTS_ROOT && parts->n != 1))
        return err_set(e, ERR_UPSTREAM, "malformed list of archive parts from sandboxer-layers");
    for (size_t i = 0; i < parts->n; i++)
        if (!is_part(&parts->p[i], parts->kind, archive))
            return err_set(e, ERR_UPSTREAM, "invalid archive part from sandboxer-layers");
    return 0;
}

/* A link to another file: `docker save` writes a layer that occurs twice like this. */
struct part_alias {
    char name[PART_NAME_MAX], target[PART_NAME_MAX];
};

struct sifting {
    int archive;
    uint64_t size;
    parts_progress_fn *progress;
    void *ctx;
    struct tar_range range;
    struct tar_reader reader;
    struct archive_parts *out;
    struct part_alias aliases[PARTS_MAX];
    size_t n_aliases;
};

static void begin_archive(struct sifting *s)
{
    s->range = (struct tar_range){ s->archive, 0, s->size };
    tar_reader_init_range(&s->reader, &s->range);
}

/* The next entry with a valid path: 1, or 0 at the end. */
static int next_archive_entry(struct sifting *s, struct tree_path *ret, struct err *e)
{
    int r;

    while ((r = tar_next(&s->reader, e)) > 0) {
        s->progress(s->ctx, s->range.at);
        if (tree_path(str_from(s->reader.entry.path), ret, NULL) >= 0)
            return 1;
    }
    return r;
}

static int find_archive_kind(struct sifting *s, struct err *e)
{
    bool layout = false, index = false, saved = false;
    struct tree_path path;
    int r;

    begin_archive(s);
    while ((r = next_archive_entry(s, &path, e)) > 0) {
        if (s->reader.entry.type != TAR_FILE)
            continue;
        layout |= strcmp(path.text, "oci-layout") == 0;
        index |= strcmp(path.text, "index.json") == 0;
        saved |= strcmp(path.text, "manifest.json") == 0;
    }
    s->out->kind = layout && index ? PARTS_LAYOUT : saved ? PARTS_SAVED : PARTS_ROOT;
    return r;
}

static void finish_part_digest(struct crypto_sha256 *h, char out[static DIGEST_TEXT_MAX])
{
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256_end_hex(h, hex);
    snprintf(out, DIGEST_TEXT_MAX, "sha256:%s", hex);
}

/* --- a root file system --- */

static int hash_all(struct sifting *s, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    struct part_record *p = &s->out->p[s->out->n++];
    struct tar_range all = { s->archive, 0, s->size };
    char piece[TREE_CHUNK];
    ssize_t n;

    while ((n = tar_range_read(&all, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            crypto_sha256_add(&h, (struct str){ piece, (size_t)n });
        s->progress(s->ctx, all.at);
    }
    if (n < 0)
        return err_sys(e, "reading the archive");
    p->size = s->size;
    finish_part_digest(&h, p->digest);
    return 0;
}

/* --- an archive of images --- */

static int too_many_parts(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "the archive holds more than %d files", PARTS_MAX);
}

static int add_archive_part(struct sifting *s, const struct tree_path *path, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    struct part_record *p = &s->out->p[s->out->n];
    struct str piece;
    int r;

    if (s->out->n == PARTS_MAX)
        return too_many_parts(e);
    if (!path->n || !str_copy(str_from(path->text), p->name, sizeof p->name))
        return 0; /* no manifest could refer to it */
    s->out->n++;
    p->at = s->reader.at;
    p->size = s->reader.entry.size;
    while ((r = tar_data(&s->reader, &piece, e)) > 0) {
        crypto_sha256_add(&h, piece);
        s->progress(s->ctx, s->range.at);
    }
    if (r >= 0)
        finish_part_digest(&h, p->digest);
    return r;
}

/* Resolves the target of a link by path components only. */
static bool resolve_link_target(const struct tree_path *link, const char *target,
                                struct tree_path *ret)
{
    char from[TREE_PATH_MAX], whole[2 * TREE_PATH_MAX];

    tree_path_parent(link, from);
    while (strncmp(target, "../", 3) == 0 && strcmp(from, ".") != 0) {
        char *slash = strrchr(from, '/');

        target += 3;
        memcpy(slash ? slash : from, slash ? "" : ".", slash ? 1 : 2);
    }
    snprintf(whole, sizeof whole, "%s/%s", from, target);
    return target[0] != '/' && tree_path(str_from(whole), ret, NULL) >= 0;
}

static int add_part_alias(struct sifting *s, const struct tree_path *path, struct err *e)
{
    struct part_alias *a = &s->aliases[s->n_aliases];
    struct tree_path target;

    if (s->n_aliases == PARTS_MAX)
        return too_many_parts(e);
    if (resolve_link_target(path, s->reader.entry.link, &target) &&
        str_copy(str_from(path->text), a->name, sizeof a->name) &&
        str_copy(str_from(target.text), a->target, sizeof a->target))
        s->n_aliases++;
    return 0;
}

static int resolve_aliases(struct sifting *s, struct err *e)
{
    for (size_t i = 0; i < s->n_aliases; i++) {
        struct part_record *parts = s->out->p, *alias = &parts[s->out->n];
        size_t at = 0;

        while (at < s->out->n && strcmp(parts[at].name, s->aliases[i].target) != 0)
            at++;
        if (at == s->out->n)
            continue;
        if (s->out->n == PARTS_MAX)
            return too_many_parts(e);
        *alias = parts[at];
        memcpy(alias->name, s->aliases[i].name, sizeof alias->name);
        s->out->n++;
    }
    return 0;
}

static int hash_files(struct sifting *s, struct err *e)
{
    struct tree_path path;
    int r;

    begin_archive(s);
    while ((r = next_archive_entry(s, &path, e)) > 0) {
        if (s->reader.entry.type == TAR_FILE)
            r = add_archive_part(s, &path, e);
        else if (s->reader.entry.type == TAR_SYMLINK)
            r = add_part_alias(s, &path, e);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : resolve_aliases(s, e);
}

int parts_find(int archive, parts_progress_fn *progress, void *ctx, struct archive_parts *ret,
               struct err *e)
{
    static struct sifting s; /* large; a layer worker does this once */
    struct stat st;
    int r;

    if (fstat(archive, &st) < 0)
        return err_sys(e, "reading the size of the archive");
    memset(ret, 0, sizeof *ret);
    s.archive = archive;
    s.size = (uint64_t)st.st_size;
    s.progress = progress;
    s.ctx = ctx;
    s.out = ret;
    s.n_aliases = 0;
    r = find_archive_kind(&s, e);
    if (r < 0)
        return r;
    return ret->kind == PARTS_ROOT ? hash_all(&s, e) : hash_files(&s, e);
}

/* --- the job --- */

static void report_sift_progress(void *layer_worker, uint64_t bytes)
{
    layer_worker_report_progress(layer_worker, bytes, 0);
}

int layer_worker_sift(struct layer_worker *k, struct err *e)
{
    static struct archive_parts parts;
    int r = parts_find(k->fds[0], report_sift_progress, k, &parts, e);

    return r < 0 ? r : at_write(k->fds[1], &parts, sizeof parts, e);
}
