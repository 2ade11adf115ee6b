#include "seal/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "crypto/encode.h"
#include "tree/at.h"
#include "tree/walk.h"

enum { MEMORY_MAX = 256 << 20, PIECE = 64 << 10 };

const char *const seal_kinds[] = { "file", "directory", "link", "other", NULL };
const char *const seal_changes[] = { "added", "changed", "none", NULL };
const char *const seal_contents[] = { "data", "elf", "script", NULL };

void seal_files_done(struct seal_files *f)
{
    free(f->p);
    arena_done(&f->arena);
    *f = (struct seal_files){ 0 };
}

/* --- Reading --- */

static enum seal_content content_of(struct str head)
{
    if (str_starts(head, STR("\177ELF")))
        return SEAL_ELF;
    return str_starts(head, STR("#!")) ? SEAL_SCRIPT : SEAL_DATA;
}

/* Its hash, and what it is by its first bytes; the size is what was read. */
static int hash_file(int dir, const char *name, struct seal_file *f, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO(buf_done) struct buf hex = BUF_INIT(2 * CRYPTO_SHA256_SIZE);
    AUTO_CLOSE int file = at_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
    unsigned char digest[CRYPTO_SHA256_SIZE];
    static char piece[PIECE];
    ssize_t n;

    if (file < 0)
        return at_error(e, "opening a file");
    for (f->size = 0; (n = read(file, piece, sizeof piece)) != 0; f->size += (uint64_t)n) {
        if (n < 0)
            return err_sys(e, "reading %s", f->path);
        if (f->size == 0)
            f->content = content_of((struct str){ piece, (size_t)n });
        crypto_sha256_add(&h, (struct str){ piece, (size_t)n });
    }
    if (f->size == 0)
        crypto_sha256_add(&h, STR(""));
    crypto_sha256_end(&h, digest);
    if (crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex) < 0)
        return err_set(e, ERR_BUG, "a digest that does not fit");
    return str_copy(buf_str(&hex), f->sha256, sizeof f->sha256) ? 0
                                                                : err_set(e, ERR_BUG, "a digest");
}

static int read_link(struct seal_files *f, int dir, const char *name, struct seal_file *one,
                     struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);

    if (n < 0)
        return err_sys(e, "reading the link %s", one->path);
    one->target = arena_dup(&f->arena, (struct str){ target, (size_t)n });
    return one->target ? 0 : err_set(e, ERR_TOO_BIG, "more files than memory for them");
}

static enum seal_kind kind_of(mode_t mode)
{
    if (S_ISREG(mode))
        return SEAL_FILE;
    if (S_ISDIR(mode))
        return SEAL_DIRECTORY;
    return S_ISLNK(mode) ? SEAL_LINK : SEAL_OTHER;
}

static int grow(struct seal_files *f, struct err *e)
{
    if (f->n < f->cap_)
        return 0;
    if (f->n == SEAL_FILES_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d files", SEAL_FILES_MAX);
    f->cap_ = f->cap_ ? 2 * f->cap_ : 64;
    f->p = reallocarray(f->p, f->cap_, sizeof *f->p);
    if (!f->p)
        abort();
    return 0;
}

/* The path of a name in the deepest level. */
static const char *path_of(struct seal_files *f, const struct seal_reading *how, struct walk *w,
                           const char *name)
{
    AUTO(buf_done) struct buf path = BUF_INIT(TREE_PATH_MAX);

    if (how->at[0] && buf_addf(&path, "%s/", how->at) < 0)
        return NULL;
    for (unsigned i = 1; i < w->depth; i++)
        if (buf_addf(&path, "%s/", w->levels[i].name) < 0)
            return NULL;
    return buf_add(&path, str_from(name)) < 0 ? NULL : arena_dup(&f->arena, buf_str(&path));
}

static bool has_mark(int dir, const char *name, const char *mark)
{
    AUTO_CLOSE int fd = at_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
    char value[8];

    return fd >= 0 && fgetxattr(fd, mark, value, sizeof value) >= 0;
}

/* Deleted is what a character device 0/0 stands for, or an empty file that says so. In an upper
 * directory a program can make neither: overlayfs keeps it from these devices and names. */
static enum seal_mark mark_of(int dir, const char *name, const struct stat *st)
{
    if (S_ISCHR(st->st_mode))
        return st->st_rdev == makedev(0, 0) ? SEAL_WHITEOUT : SEAL_PLAIN;
    if (S_ISREG(st->st_mode) && st->st_size == 0)
        return has_mark(dir, name, "user.overlay.whiteout") ? SEAL_WHITEOUT : SEAL_PLAIN;
    if (S_ISDIR(st->st_mode))
        return has_mark(dir, name, "user.overlay.opaque") ? SEAL_OPAQUE : SEAL_PLAIN;
    return SEAL_PLAIN;
}

/* A file of holes is read as long as it says it is: both ceilings count them. */
static int read_file(struct seal_files *f, const struct seal_reading *how, int dir,
                     const char *name, struct seal_file *one, struct err *e)
{
    if (how->file_bytes && one->size > how->file_bytes)
        return 0;
    if (how->bytes && (one->size > how->bytes || f->read > how->bytes - one->size))
        return err_set(e, ERR_TOO_BIG, "more than %llu MiB in files",
                       (unsigned long long)(how->bytes >> 20));
    f->read += one->size;
    return hash_file(dir, name, one, e);
}

static bool has_lower(const struct seal_reading *how, const char *path)
{
    struct str rest = str_from(how->below ? how->below : ""), name, top;

    str_cut(str_from(path), '/', &top);
    if (!rest.n)
        return how->has_lower;
    while (rest.p) {
        rest = str_cut(rest, '+', &name);
        if (str_eq(name, top))
            return how->has_lower;
    }
    return false;
}

static int look_at(struct seal_files *f, const struct seal_reading *how, int dir, const char *name,
                   struct seal_file *one, struct err *e)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "looking at %s", one->path);
    one->kind = kind_of(st.st_mode);
    one->mode = st.st_mode & 07777;
    one->links = S_ISDIR(st.st_mode) ? 1 : (unsigned)st.st_nlink;
    one->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    one->has_lower = has_lower(how, one->path);
    one->mark = one->has_lower ? mark_of(dir, name, &st) : SEAL_PLAIN;
    if (one->kind == SEAL_FILE && one->mark == SEAL_PLAIN)
        return read_file(f, how, dir, name, one, e);
    return one->kind == SEAL_LINK ? read_link(f, dir, name, one, e) : 0;
}

static int add(struct seal_files *f, const struct seal_reading *how, struct walk *w,
               const char *name, struct err *e)
{
    struct seal_file one = { .path = path_of(f, how, w, name) };
    int r = grow(f, e);

    if (r < 0)
        return r;
    if (!one.path)
        return err_set(e, ERR_TOO_BIG, "a path too long, or more files than memory for them");
    r = look_at(f, how, walk_top(w)->fd, name, &one, e);
    if (r < 0)
        return r;
    f->p[f->n++] = one;
    return one.kind == SEAL_DIRECTORY;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct seal_file *)a)->path, ((const struct seal_file *)b)->path);
}

/* One name of the deepest level, or the end of that level. */
static int walk_on(struct seal_files *f, const struct seal_reading *how, struct walk *w,
                   struct err *e)
{
    char name[TREE_NAME_MAX + 1];
    const char *next;
    int fd, r = walk_next(w, &next, e);

    if (r == 0)
        walk_leave(w);
    if (r <= 0)
        return r;
    if (!str_copy(str_from(next), name, sizeof name))
        return err_set(e, ERR_TOO_BIG, "a name of more than %d bytes", TREE_NAME_MAX);
    r = add(f, how, w, name, e);
    if (r <= 0)
        return r;
    fd = at_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? at_error(e, "opening a directory") : walk_enter(w, fd, name, e);
}

int seal_files_add(struct seal_files *f, int dir, const struct seal_reading *how, struct err *e)
{
    AUTO_FREE struct walk *w = malloc(sizeof *w);
    int fd = at_open(dir, ".", O_RDONLY | O_DIRECTORY, 0), r;

    if (!w)
        abort();
    if (!f->arena.max)
        f->arena = ARENA_INIT(MEMORY_MAX);
    if (fd < 0)
        return at_error(e, "opening the directory");
    walk_init(w);
    r = walk_enter(w, fd, ".", e);
    if (r >= 0 && how->itself)
        r = add(f, how, w, ".", e);
    while (r >= 0 && w->depth > 0)
        r = walk_on(f, how, w, e);
    walk_done(w);
    return r < 0 ? r : 0;
}

void seal_files_sort(struct seal_files *f)
{
    if (f->n)
        qsort(f->p, f->n, sizeof *f->p, by_path);
}

int seal_files_read(struct seal_files *f, int dir, struct err *e)
{
    int r;

    *f = (struct seal_files){ 0 };
    r = seal_files_add(f, dir, &(struct seal_reading){ .at = "" }, e);
    seal_files_sort(f);
    return r;
}

/* --- What changed --- */

bool seal_file_same(const struct seal_file *a, const struct seal_file *b)
{
    return a->kind == b->kind && a->mode == b->mode && a->mark == b->mark && a->size == b->size &&
           strcmp(a->sha256, b->sha256) == 0 && (!a->target || strcmp(a->target, b->target) == 0);
}

/* Both are sorted: one walk through both. */
void seal_compare(struct seal_files *f, const struct seal_files *before, struct json_writer *w)
{
    size_t i = 0, k = 0;
    int order;

    json_begin_array(w);
    while (i < f->n || k < before->n) {
        if (i == f->n || k == before->n)
            order = i == f->n ? 1 : -1;
        else
            order = strcmp(f->p[i].path, before->p[k].path);
        if (order == 0)
            f->p[i].change = seal_file_same(&f->p[i], &before->p[k]) ? SEAL_SAME : SEAL_CHANGED;
        else if (order > 0)
            json_put_lossy(w, str_from(before->p[k].path));
        i += order <= 0;
        k += order >= 0;
    }
    json_end_array(w);
}

/* --- What may leave --- */

/* Whether a link's target, from where the link is, stays below the directory. */
static bool stays(const char *path, const char *target)
{
    struct str rest = str_from(path), part;
    int depth = -1;

    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        depth++;
    }
    if (target[0] == '/')
        return false;
    for (rest = str_from(target); rest.p && depth >= 0;) {
        rest = str_cut(rest, '/', &part);
        if (str_eq(part, STR("..")))
            depth--;
        else if (part.n && !str_eq(part, STR(".")))
            depth++;
    }
    return depth >= 0;
}

/* A terminal or a script that meets the name must not act on it. */
static bool is_plain_name(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            return false;
    return str_is_utf8(str_from(path));
}

const char *seal_refusal(const struct seal_file *f, const struct seal_limits *l,
                         const char **ret_rule)
{
    const char *rule = NULL, *why = NULL;

    if (f->kind == SEAL_OTHER)
        rule = "kind", why = "a device, a pipe or a socket";
    else if (f->kind == SEAL_FILE && (f->mode & 06000))
        rule = "setuid", why = "runs with its owner's or its group's rights";
    else if (f->kind == SEAL_LINK && !stays(f->path, f->target))
        rule = "link", why = "a link that leads out of the directory";
    else if (!is_plain_name(f->path) || (f->target && !is_plain_name(f->target)))
        rule = "name", why = "a name with control characters, or not in UTF-8";
    else if (f->size > l->file_bytes)
        rule = "size", why = "larger than a file may be";
    *ret_rule = rule;
    return why;
}

/* --- As JSON --- */

static void put(struct json_writer *w, struct str key, const char *text)
{
    json_key(w, key);
    json_put_lossy(w, str_from(text));
}

void seal_file_write(const struct seal_file *f, const char *change, struct json_writer *w)
{
    char mode[8];

    snprintf(mode, sizeof mode, "%04o", f->mode);
    json_begin_object(w);
    put(w, STR("path"), f->path);
    put(w, STR("change"), change);
    put(w, STR("kind"), seal_kinds[f->kind]);
    put(w, STR("mode"), mode);
    if (f->links > 1) {
        json_key(w, STR("links"));
        json_put_uint(w, f->links);
    }
    if (f->mark == SEAL_OPAQUE) {
        json_key(w, STR("replaces"));
        json_put_bool(w, true);
    }
    if (f->kind == SEAL_FILE) {
        json_key(w, STR("size"));
        json_put_uint(w, f->size);
    }
    if (f->sha256[0]) {
        put(w, STR("content"), seal_contents[f->content]);
        put(w, STR("sha256"), f->sha256);
    }
    if (f->target)
        put(w, STR("target"), f->target);
    json_end_object(w);
}

void seal_files_write(const struct seal_files *f, struct json_writer *w)
{
    json_begin_array(w);
    for (size_t i = 0; i < f->n; i++)
        seal_file_write(&f->p[i], seal_changes[f->p[i].change], w);
    json_end_array(w);
}

static void write_violation(const char *path, const char *rule, const char *why,
                            struct json_writer *w)
{
    json_begin_object(w);
    put(w, STR("path"), path);
    put(w, STR("rule"), rule);
    put(w, STR("reason"), why);
    json_end_object(w);
}

size_t seal_violations_write(const struct seal_files *f, const struct seal_limits *l,
                             struct json_writer *w)
{
    uint64_t bytes = 0;
    size_t n = 0;

    json_begin_array(w);
    for (size_t i = 0; i < f->n; i++) {
        const char *rule, *why = seal_refusal(&f->p[i], l, &rule);

        bytes += f->p[i].size;
        if (why && n++ < SEAL_VIOLATIONS_MAX)
            write_violation(f->p[i].path, rule, why, w);
    }
    if (f->n > l->files)
        n++, write_violation(".", "files", "more files than may leave", w);
    if (bytes > l->bytes)
        n++, write_violation(".", "bytes", "more bytes than may leave", w);
    json_end_array(w);
    return n;
}
