/* LAYERS_SIFT: what an archive of images holds. Its headers are read once, to know what it is; then
 * what is of interest is hashed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "crypto/encode.h"
#include "crypto/hash.h"
#include "layers/keeper.h"
#include "layers/parts.h"
#include "tree/at.h"
#include "tree/path.h"
#include "tree/reader.h"

/* One file by another name: `docker save` writes a layer that comes twice like that. */
struct alias {
    char name[PART_NAME_MAX], target[PART_NAME_MAX];
};

struct sifting {
    int archive;
    uint64_t size;
    parts_progress_fn *progress;
    void *ctx;
    struct tar_range range;
    struct tar_reader reader;
    struct parts *out;
    struct alias aliases[PARTS_MAX];
    size_t n_aliases;
};

static void begin(struct sifting *s)
{
    s->range = (struct tar_range){ s->archive, 0, s->size };
    tar_reader_init_range(&s->reader, &s->range);
}

/* The next entry with a name of its own: 1, or 0 at the end. */
static int next_entry(struct sifting *s, struct tree_path *ret, struct err *e)
{
    int r;

    while ((r = tar_next(&s->reader, e)) > 0) {
        s->progress(s->ctx, s->range.at);
        if (tree_path(str_from(s->reader.entry.path), ret, NULL) >= 0)
            return 1;
    }
    return r;
}

static int find_kind(struct sifting *s, struct err *e)
{
    bool layout = false, index = false, saved = false;
    struct tree_path path;
    int r;

    begin(s);
    while ((r = next_entry(s, &path, e)) > 0) {
        if (s->reader.entry.type != TAR_FILE)
            continue;
        layout |= strcmp(path.text, "oci-layout") == 0;
        index |= strcmp(path.text, "index.json") == 0;
        saved |= strcmp(path.text, "manifest.json") == 0;
    }
    s->out->kind = layout && index ? PARTS_LAYOUT : saved ? PARTS_SAVED : PARTS_ROOT;
    return r;
}

static void end_hash(struct crypto_sha256 *h, char out[static MEASURE_MAX])
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256_end(h, digest);
    crypto_hex_sha256(digest, hex);
    snprintf(out, MEASURE_MAX, "sha256:%s", hex);
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
    end_hash(&h, p->digest);
    return 0;
}

/* --- an archive of images --- */

static int hash_file(struct sifting *s, struct part_record *p, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    struct str piece;
    int r;

    p->at = s->reader.at;
    p->size = s->reader.entry.size;
    while ((r = tar_data(&s->reader, &piece, e)) > 0) {
        crypto_sha256_add(&h, piece);
        s->progress(s->ctx, s->range.at);
    }
    if (r >= 0)
        end_hash(&h, p->digest);
    return r;
}

static int too_many(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "the archive holds more than %d files", PARTS_MAX);
}

static int add_file(struct sifting *s, const struct tree_path *path, struct err *e)
{
    struct part_record *p = &s->out->p[s->out->n];

    if (s->out->n == PARTS_MAX)
        return too_many(e);
    if (!path->n || !str_copy(str_from(path->text), p->name, sizeof p->name))
        return 0; /* nobody could name it */
    s->out->n++;
    return hash_file(s, p, e);
}

static void go_up(char *dir)
{
    char *slash = strrchr(dir, '/');

    if (slash)
        *slash = '\0';
    else
        memcpy(dir, ".", sizeof ".");
}

/* Where a link leads, as far as names alone can say. */
static bool follow(const struct tree_path *link, const char *target, struct tree_path *ret)
{
    char from[TREE_PATH_MAX], whole[2 * TREE_PATH_MAX];

    tree_path_parent(link, from);
    while (strncmp(target, "../", 3) == 0 && strcmp(from, ".") != 0) {
        target += 3;
        go_up(from);
    }
    snprintf(whole, sizeof whole, "%s/%s", from, target);
    return target[0] != '/' && tree_path(str_from(whole), ret, NULL) >= 0;
}

static int add_link(struct sifting *s, const struct tree_path *path, struct err *e)
{
    struct alias *a = &s->aliases[s->n_aliases];
    struct tree_path target;

    if (s->n_aliases == PARTS_MAX)
        return too_many(e);
    if (follow(path, s->reader.entry.link, &target) &&
        str_copy(str_from(path->text), a->name, sizeof a->name) &&
        str_copy(str_from(target.text), a->target, sizeof a->target))
        s->n_aliases++;
    return 0;
}

static const struct part_record *find(const struct parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->p[i].name, name) == 0)
            return &parts->p[i];
    return NULL;
}

static int resolve_links(struct sifting *s, struct err *e)
{
    for (size_t i = 0; i < s->n_aliases; i++) {
        const struct part_record *p = find(s->out, s->aliases[i].target);
        struct part_record *alias = &s->out->p[s->out->n];

        if (!p)
            continue;
        if (s->out->n == PARTS_MAX)
            return too_many(e);
        *alias = *p;
        memcpy(alias->name, s->aliases[i].name, sizeof alias->name);
        s->out->n++;
    }
    return 0;
}

static int hash_files(struct sifting *s, struct err *e)
{
    struct tree_path path;
    int r;

    begin(s);
    while ((r = next_entry(s, &path, e)) > 0) {
        if (s->reader.entry.type == TAR_FILE)
            r = add_file(s, &path, e);
        else if (s->reader.entry.type == TAR_SYMLINK)
            r = add_link(s, &path, e);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : resolve_links(s, e);
}

int parts_find(int archive, parts_progress_fn *progress, void *ctx, struct parts *ret,
               struct err *e)
{
    static struct sifting s; /* large; a keeper does this once */
    struct stat st;
    int r;

    if (fstat(archive, &st) < 0)
        return err_sys(e, "looking at the archive");
    memset(ret, 0, sizeof *ret);
    s.archive = archive;
    s.size = (uint64_t)st.st_size;
    s.progress = progress;
    s.ctx = ctx;
    s.out = ret;
    s.n_aliases = 0;
    r = find_kind(&s, e);
    if (r < 0)
        return r;
    return ret->kind == PARTS_ROOT ? hash_all(&s, e) : hash_files(&s, e);
}

/* --- the job --- */

static void on_progress(void *keeper, uint64_t bytes)
{
    keeper_progress(keeper, bytes, 0);
}

int keeper_sift(struct keeper *k, struct err *e)
{
    static struct parts parts;
    int r = parts_find(k->fds[0], on_progress, k, &parts, e);

    return r < 0 ? r : at_write(k->fds[1], &parts, sizeof parts, e);
}
