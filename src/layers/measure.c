#include "layers/measure.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/own.h"
#include "crypto/encode.h"
#include "crypto/hash.h"
#include "layers/attributes.h"
#include "tree/at.h"
#include "tree/walk.h"

#define OPAQUE "user.overlay.opaque"

struct measuring {
    struct walk walk;
    struct measure out;
    unsigned char sum[CRYPTO_SHA256_SIZE];
    measure_progress_fn *progress;
    void *ctx;
};

/* The largest first. */
static void add_up(unsigned char sum[static CRYPTO_SHA256_SIZE],
                   const unsigned char more[static CRYPTO_SHA256_SIZE])
{
    unsigned carry = 0;

    for (size_t i = CRYPTO_SHA256_SIZE; i-- > 0;) {
        carry += (unsigned)sum[i] + more[i];
        sum[i] = (unsigned char)carry;
        carry >>= 8;
    }
}

/* Every text with its NUL, so that no two ways to write one are the same bytes. */
static void hash_text(struct crypto_sha256 *h, const char *s)
{
    crypto_sha256_add(h, (struct str){ s, strlen(s) + 1 });
}

static void hash_path(const struct measuring *m, struct crypto_sha256 *h, const char *name)
{
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

static int hash_content(struct measuring *m, struct crypto_sha256 *h, int fd, struct err *e)
{
    char piece[TREE_CHUNK];

    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "reading it");
        if (n == 0)
            return 0;
        crypto_sha256_add(h, (struct str){ piece, (size_t)n });
        m->out.bytes += (uint64_t)n;
        m->progress(m->ctx, m->out.bytes, m->out.entries);
    }
}

static int hash_link(struct crypto_sha256 *h, int dir, const char *name, struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);

    if (n < 0)
        return err_sys(e, "reading it");
    crypto_sha256_add(h, (struct str){ target, (size_t)n });
    return 0;
}

static void hash_opaque(struct crypto_sha256 *h, int fd)
{
    char value[16];
    ssize_t n = fgetxattr(fd, OPAQUE, value, sizeof value);

    crypto_sha256_add(h, (struct str){ value, n > 0 ? (size_t)n : 0 });
}

/* The others, where there are any. */
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
        crypto_sha256_add(h, (struct str){ value, (size_t)n });
    }
    return r;
}

/* *ret_fd: of a directory, opened; else -1. */
static int hash_kind(struct measuring *m, struct crypto_sha256 *h, int dir, const char *name,
                     mode_t mode, int *ret_fd, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    if (S_ISLNK(mode))
        return hash_link(h, dir, name, e);
    if (!S_ISREG(mode) && !S_ISDIR(mode))
        return 0;
    fd = at_open(dir, name, O_RDONLY | O_NOFOLLOW | (S_ISDIR(mode) ? O_DIRECTORY : 0), 0);
    if (fd < 0)
        return at_error(e, "opening it");
    if (S_ISREG(mode)) {
        int r = hash_content(m, h, fd, e);

        return r < 0 ? r : hash_extended(h, fd, e);
    }
    hash_opaque(h, fd);
    *ret_fd = take_fd(&fd);
    return hash_extended(h, *ret_fd, e);
}

static int measure_one(struct measuring *m, const char *name, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char digest[CRYPTO_SHA256_SIZE];
    int dir = walk_top(&m->walk)->fd, sub = -1, r;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "looking at it");
    hash_path(m, &h, name);
    hash_stat(&h, &st);
    r = hash_kind(m, &h, dir, name, st.st_mode, &sub, e);
    if (r < 0)
        return r;
    crypto_sha256_end(&h, digest);
    add_up(m->sum, digest);
    m->out.entries++;
    m->progress(m->ctx, m->out.bytes, m->out.entries);
    return sub < 0 ? 0 : walk_enter(&m->walk, sub, name, e);
}

static int measure_all(struct measuring *m, struct err *e)
{
    while (m->walk.depth > 0) {
        const char *next;
        char name[TREE_NAME_MAX + 1];
        int r = walk_next(&m->walk, &next, e);

        if (r == 0)
            walk_leave(&m->walk);
        if (r > 0 && str_copy(str_from(next), name, sizeof name))
            r = err_wrap(e, measure_one(m, name, e), "'%.100s'", name);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The root of the tree has attributes too, and no name. */
static int measure_root(struct measuring *m, int dir, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char digest[CRYPTO_SHA256_SIZE];
    struct stat st;
    int fd, r;

    if (fstat(dir, &st) < 0)
        return err_sys(e, "looking at it");
    fd = at_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return at_error(e, "opening it");
    hash_text(&h, ".");
    hash_stat(&h, &st);
    hash_opaque(&h, fd);
    r = hash_extended(&h, fd, e);
    crypto_sha256_end(&h, digest);
    add_up(m->sum, digest);
    if (r >= 0)
        return walk_enter(&m->walk, fd, ".", e);
    drop_fd(&fd);
    return r;
}

static void write_digest(struct measuring *m)
{
    AUTO(buf_done) struct buf hex = BUF_INIT(2 * CRYPTO_SHA256_SIZE);

    crypto_hex((struct str){ (const char *)m->sum, sizeof m->sum }, &hex);
    snprintf(m->out.digest, sizeof m->out.digest, "sha256:%s", hex.p);
}

int measure_tree(int dir, measure_progress_fn *progress, void *ctx, struct measure *ret,
                 struct err *e)
{
    static struct measuring m; /* large; a keeper measures one tree at a time */
    int r;

    memset(&m.out, 0, sizeof m.out);
    memset(m.sum, 0, sizeof m.sum);
    m.progress = progress;
    m.ctx = ctx;
    walk_init(&m.walk);
    r = measure_root(&m, dir, e);
    if (r >= 0)
        r = measure_all(&m, e);
    walk_done(&m.walk);
    if (r < 0)
        return r;
    write_digest(&m);
    *ret = m.out;
    return 0;
}
