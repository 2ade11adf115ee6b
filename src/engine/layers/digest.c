/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/digest.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/attributes.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"
#include "lib/tar/walk.h"

#define OPAQUE "user.overlay.opaque"

/* For the maximum number of entries, as many groups of hard links, and the root. */
#define DIGESTS_MAX ((2 * TREE_ENTRIES_DEFAULT + 1) * CRYPTO_SHA256_SIZE)
#define NAMES_MAX   (TREE_ENTRIES_DEFAULT * sizeof(struct hard_link))

/* One of several names of a file. */
struct hard_link {
    uint64_t ino;
    unsigned char digest[CRYPTO_SHA256_SIZE]; /* of the entry */
};

struct tree_digester {
    struct walk walk;
    struct tree_digest out;
    struct buf digests; /* of the entries, CRYPTO_SHA256_SIZE each */
    struct buf names;   /* struct hard_link */
    digest_progress_fn *progress;
    void *ctx;
};

static int add_digest_record(struct buf *to, const void *p, size_t n, struct err *e)
{
    return buf_add(to, (struct str){ p, n }) < 0
               ? err_set(e, ERR_TOO_BIG, "the layer has more than %llu files",
                         (unsigned long long)TREE_ENTRIES_DEFAULT)
               : 0;
}

static int end_entry(struct tree_digester *m, struct crypto_sha256 *h, const struct stat *st,
                     struct err *e)
{
    struct hard_link name = { .ino = st->st_ino };
    int r;

    crypto_sha256_end(h, name.digest);
    r = add_digest_record(&m->digests, name.digest, sizeof name.digest, e);
    if (r >= 0 && st->st_nlink > 1 && !S_ISDIR(st->st_mode))
        r = add_digest_record(&m->names, &name, sizeof name, e);
    return r;
}

/* Texts are hashed with their NUL, and binary data after its length, so that the input is
 * unambiguous. */
static void hash_text(struct crypto_sha256 *h, const char *s)
{
    crypto_sha256_add(h, (struct str){ s, strlen(s) + 1 });
}

static void hash_number(struct crypto_sha256 *h, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    hash_text(h, text);
}

static void hash_path(const struct tree_digester *m, struct crypto_sha256 *h, const char *name)
{
    hash_number(h, m->walk.depth);
    for (unsigned i = 1; i < m->walk.depth; i++)
        hash_text(h, m->walk.levels[i].name);
    hash_text(h, name);
}

static void hash_stat(struct crypto_sha256 *h, const struct stat *st)
{
    bool dir = S_ISDIR(st->st_mode);
    char text[256];

    snprintf(text, sizeof text, "%o %u:%u %lld %lld.%09ld %llu %u:%u", (unsigned)st->st_mode,
             (unsigned)st->st_uid, (unsigned)st->st_gid, dir ? 0LL : (long long)st->st_size,
             (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
             dir ? 0ULL : (unsigned long long)st->st_nlink, major(st->st_rdev), minor(st->st_rdev));
    hash_text(h, text);
}

/* Hashes the pieces of a file that are not all zeros, each with its offset: holes cost no time, and
 * their position does not change the digest. */
static int hash_content(struct tree_digester *m, struct crypto_sha256 *h, int fd, struct err *e)
{
    static char piece[TREE_CHUNK];
    off_t at = 0;

    for (;;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        ssize_t n;

        if (data < 0 && errno == ENXIO)
            return 0;
        if (data < 0)
            return err_sys(e, "searching for holes");
        at = data - data % TREE_CHUNK;
        n = pread_full(fd, piece, sizeof piece, at);
        if (n <= 0)
            return n < 0 ? err_sys(e, "reading the file") : 0;
        if (piece[0] != 0 || memcmp(piece, piece + 1, (size_t)n - 1) != 0) {
            hash_number(h, (uint64_t)at);
            crypto_sha256_add(h, (struct str){ piece, (size_t)n });
        }
        m->out.bytes += (uint64_t)n;
        m->progress(m->ctx, m->out.bytes, m->out.entries);
        at += n;
    }
}

static void hash_opaque(struct crypto_sha256 *h, int fd)
{
    char value[16];
    ssize_t n = fgetxattr(fd, OPAQUE, value, sizeof value);

    hash_number(h, n > 0 ? (uint64_t)n : 0);
    crypto_sha256_add(h, (struct str){ value, n > 0 ? (size_t)n : 0 });
}

/* Hashes the other extended attributes. */
static int hash_extended(struct crypto_sha256 *h, int fd, struct err *e)
{
    static struct attribute_names names;
    static char value[XATTR_SIZE_MAX];
    int r = attributes_list(fd, &names, e);

    for (size_t i = 0; r >= 0 && i < names.n; i++) {
        ssize_t n;

        if (strcmp(names.p[i], OPAQUE) == 0)
            continue;
        n = fgetxattr(fd, names.p[i], value, sizeof value);
        if (n < 0)
            return err_sys(e, "reading the attribute %.100s", names.p[i]);
        hash_text(h, names.p[i]);
        hash_number(h, (uint64_t)n);
        crypto_sha256_add(h, (struct str){ value, (size_t)n });
    }
    return r;
}

/* Sets *ret_fd to the descriptor of a directory; else -1. */
static int hash_kind(struct tree_digester *m, struct crypto_sha256 *h, int dir, const char *name,
                     mode_t mode, int *ret_fd, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char target[TREE_PATH_MAX];

    if (S_ISLNK(mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target);

        if (n < 0)
            return err_sys(e, "reading the file");
        crypto_sha256_add(h, (struct str){ target, (size_t)n });
        return 0;
    }
    if (!S_ISREG(mode) && !S_ISDIR(mode))
        return 0;
    fd = at_open_unseen(dir, name, O_NOFOLLOW | (S_ISDIR(mode) ? O_DIRECTORY : 0));
    if (fd < 0)
        return at_error(e, "opening the file");
    if (S_ISREG(mode)) {
        int r = hash_content(m, h, fd, e);

        return r < 0 ? r : hash_extended(h, fd, e);
    }
    hash_opaque(h, fd);
    *ret_fd = take_fd(&fd);
    return hash_extended(h, *ret_fd, e);
}

static int digest_entry(struct tree_digester *m, const char *name, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO_CLOSE int sub = -1;
    int dir = walk_top(&m->walk)->fd, r;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading its attributes");
    hash_path(m, &h, name);
    hash_stat(&h, &st);
    r = hash_kind(m, &h, dir, name, st.st_mode, &sub, e);
    if (r >= 0)
        r = end_entry(m, &h, &st, e);
    if (r < 0)
        return r;
    m->out.entries++;
    m->progress(m->ctx, m->out.bytes, m->out.entries);
    return sub < 0 ? 0 : walk_enter(&m->walk, take_fd(&sub), name, e);
}

static int digest_entries(struct tree_digester *m, struct err *e)
{
    while (m->walk.depth > 0) {
        const char *next;
        char name[TREE_NAME_MAX + 1];
        int r = walk_next(&m->walk, &next, e);

        if (r == 0)
            walk_leave(&m->walk);
        if (r > 0 && str_copy(str_from(next), name, sizeof name))
            r = err_wrap(e, digest_entry(m, name, e), "'%.100s'", name);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Hashes the root, which has attributes but no name. */
static int digest_root(struct tree_digester *m, int dir, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r;

    if (fstat(dir, &st) < 0)
        return err_sys(e, "reading its attributes");
    fd = at_open_unseen(dir, ".", O_DIRECTORY);
    if (fd < 0)
        return at_error(e, "opening the file");
    hash_path(m, &h, ".");
    hash_stat(&h, &st);
    hash_opaque(&h, fd);
    r = hash_extended(&h, fd, e);
    if (r >= 0)
        r = end_entry(m, &h, &st, e);
    return r < 0 ? r : walk_enter(&m->walk, take_fd(&fd), ".", e);
}

static int compare_digests(const void *a, const void *b)
{
    return memcmp(a, b, CRYPTO_SHA256_SIZE);
}

static int compare_hard_links(const void *a, const void *b)
{
    const struct hard_link *x = a, *y = b;

    return x->ino != y->ino ? (x->ino < y->ino ? -1 : 1) : compare_digests(x->digest, y->digest);
}

/* Adds a digest for each group of names that share an inode. */
static int digest_link_groups(struct tree_digester *m, struct err *e)
{
    struct hard_link *names = (struct hard_link *)(void *)m->names.p;
    size_t n = m->names.n / sizeof *names;
    int r = 0;

    if (n)
        qsort(names, n, sizeof *names, compare_hard_links);
    for (size_t i = 0, next; r >= 0 && i < n; i = next) {
        AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
        unsigned char digest[CRYPTO_SHA256_SIZE];

        for (next = i; next < n && names[next].ino == names[i].ino; next++)
            crypto_sha256_add(
                &h, (struct str){ (const char *)names[next].digest, sizeof names[next].digest });
        crypto_sha256_end(&h, digest);
        r = add_digest_record(&m->digests, digest, sizeof digest, e);
    }
    return r;
}

int digest_tree(int dir, digest_progress_fn *progress, void *ctx, struct tree_digest *ret,
                struct err *e)
{
    static struct tree_digester m; /* large; a layer worker digests one tree at a time */
    unsigned char all[CRYPTO_SHA256_SIZE];
    char hex[CRYPTO_SHA256_HEX];
    int r;

    memset(&m.out, 0, sizeof m.out);
    buf_init(&m.digests, DIGESTS_MAX);
    buf_init(&m.names, NAMES_MAX);
    m.progress = progress;
    m.ctx = ctx;
    walk_init(&m.walk);
    r = digest_root(&m, dir, e);
    if (r >= 0)
        r = digest_entries(&m, e);
    walk_done(&m.walk);
    if (r >= 0)
        r = digest_link_groups(&m, e);
    if (r >= 0) { /* sorted by their bytes, so that the order of directories does not matter */
        qsort(m.digests.p, m.digests.n / CRYPTO_SHA256_SIZE, CRYPTO_SHA256_SIZE, compare_digests);
        crypto_sha256(buf_str(&m.digests), all);
        crypto_hex_sha256(all, hex);
        snprintf(m.out.digest, sizeof m.out.digest, "sha256:%s", hex);
        *ret = m.out;
    }
    buf_done(&m.digests);
    buf_done(&m.names);
    return r < 0 ? r : 0;
}
