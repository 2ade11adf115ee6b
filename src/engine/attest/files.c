/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/tar/at.h"
#include "lib/tar/walk.h"

enum { MEMORY_MAX = 256 << 20, PIECE = 64 << 10 };

const char *const attest_kinds[] = { "file", "directory", "link", "other", NULL };
const char *const attest_changes[] = { "added", "changed", "none", NULL };
const char *const attest_contents[] = { "data", "elf", "script", NULL };

void attest_files_done(struct attest_files *f)
{
    free(f->p);
    arena_done(&f->arena);
    *f = (struct attest_files){ 0 };
}

/* --- Reading --- */

/* Its hash, and what it is by its first bytes; the size is what was read. */
static int hash_attested_file(int dir, const char *name, struct attest_file *f, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO_CLOSE int file = at_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
    static char piece[PIECE];
    ssize_t n;

    if (file < 0)
        return at_error(e, "opening a file");
    for (f->size = 0; (n = read(file, piece, sizeof piece)) != 0; f->size += (uint64_t)n) {
        struct str read_now = { piece, (size_t)n };

        if (n < 0)
            return err_sys(e, "reading %s", f->path);
        if (f->size == 0)
            f->content = str_starts(read_now, STR("\177ELF")) ? ATTEST_ELF
                         : str_starts(read_now, STR("#!"))    ? ATTEST_SCRIPT
                                                              : ATTEST_DATA;
        crypto_sha256_add(&h, read_now);
    }
    if (f->size == 0)
        crypto_sha256_add(&h, STR(""));
    crypto_sha256_end_hex(&h, f->sha256);
    return 0;
}

static int read_attested_link(struct attest_files *f, int dir, const char *name,
                              struct attest_file *one, struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);

    if (n < 0)
        return err_sys(e, "reading the link %s", one->path);
    one->target = arena_dup(&f->arena, (struct str){ target, (size_t)n });
    return one->target ? 0
                       : err_set(e, ERR_TOO_BIG, "the list of files needs more than %zu bytes",
                                 f->arena.max);
}

/* The path of a name in the deepest level. */
static const char *entry_path(struct attest_files *f, const struct attest_reading *how,
                              struct walk *w, const char *name)
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

/* A whiteout is a character device 0/0, or an empty file with the whiteout attribute. Programs can
 * make neither in an upper directory: overlayfs refuses these devices and attributes. */
static enum attest_mark overlay_mark_of(int dir, const char *name, const struct stat *st)
{
    if (S_ISCHR(st->st_mode))
        return st->st_rdev == makedev(0, 0) ? ATTEST_WHITEOUT : ATTEST_PLAIN;
    if (S_ISREG(st->st_mode) && st->st_size == 0)
        return has_mark(dir, name, "user.overlay.whiteout") ? ATTEST_WHITEOUT : ATTEST_PLAIN;
    if (S_ISDIR(st->st_mode))
        return has_mark(dir, name, "user.overlay.opaque") ? ATTEST_OPAQUE : ATTEST_PLAIN;
    return ATTEST_PLAIN;
}

/* A file of holes is read as long as it says it is: both ceilings count them. */
static int read_attested_file(struct attest_files *f, const struct attest_reading *how, int dir,
                              const char *name, struct attest_file *one, struct err *e)
{
    if (how->file_bytes && one->size > how->file_bytes)
        return 0;
    if (how->bytes && (one->size > how->bytes || f->read > how->bytes - one->size))
        return err_set(e, ERR_TOO_BIG, "the files are larger than %llu MiB together",
                       (unsigned long long)(how->bytes >> 20));
    f->read += one->size;
    return hash_attested_file(dir, name, one, e);
}

static bool has_lower(const struct attest_reading *how, const char *path)
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

static int read_attested_entry(struct attest_files *f, const struct attest_reading *how, int dir,
                               const char *name, struct attest_file *one, struct err *e)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading the attributes of %s", one->path);
    one->kind = S_ISREG(st.st_mode)   ? ATTEST_FILE
                : S_ISDIR(st.st_mode) ? ATTEST_DIRECTORY
                : S_ISLNK(st.st_mode) ? ATTEST_LINK
                                      : ATTEST_OTHER;
    one->mode = st.st_mode & 07777;
    one->links = S_ISDIR(st.st_mode) ? 1 : (unsigned)st.st_nlink;
    one->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    one->has_lower = has_lower(how, one->path);
    one->mark = one->has_lower ? overlay_mark_of(dir, name, &st) : ATTEST_PLAIN;
    if (one->kind == ATTEST_FILE && one->mark == ATTEST_PLAIN)
        return read_attested_file(f, how, dir, name, one, e);
    return one->kind == ATTEST_LINK ? read_attested_link(f, dir, name, one, e) : 0;
}

static int add_attested_entry(struct attest_files *f, const struct attest_reading *how,
                              struct walk *w, const char *name, struct err *e)
{
    struct attest_file one = { .path = entry_path(f, how, w, name) };
    int r;

    if (f->n == ATTEST_FILES_MAX)
        return err_set(e, ERR_TOO_BIG, "there are more than %d files", ATTEST_FILES_MAX);
    if (f->n >= f->cap_) {
        f->cap_ = f->cap_ ? 2 * f->cap_ : 64;
        f->p = reallocarray(f->p, f->cap_, sizeof *f->p);
        if (!f->p)
            abort();
    }
    if (!one.path)
        return err_set(
            e, ERR_TOO_BIG,
            "%.80s: its path is longer than %d bytes, or the list of files needs more than "
            "%zu",
            name, TREE_PATH_MAX - 1, f->arena.max);
    r = read_attested_entry(f, how, walk_top(w)->fd, name, &one, e);
    if (r < 0)
        return r;
    f->p[f->n++] = one;
    return one.kind == ATTEST_DIRECTORY;
}

static int compare_file_paths(const void *a, const void *b)
{
    return strcmp(((const struct attest_file *)a)->path, ((const struct attest_file *)b)->path);
}

int attest_files_add(struct attest_files *f, int dir, const struct attest_reading *how,
                     struct err *e)
{
    AUTO_FREE struct walk *w = new0(sizeof *w);
    const char *name;
    int fd, r = walk_begin(w, dir, e);

    if (!f->arena.max)
        f->arena = ARENA_INIT(MEMORY_MAX);
    if (r >= 0 && how->itself)
        r = add_attested_entry(f, how, w, ".", e);
    while (r >= 0 && (r = walk_next_any(w, &name, e)) > 0) {
        r = add_attested_entry(f, how, w, name, e);
        if (r > 0) {
            fd = at_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY, 0);
            r = fd < 0 ? at_error(e, "opening a directory") : walk_enter(w, fd, name, e);
        }
    }
    walk_done(w);
    return r;
}

void attest_files_sort(struct attest_files *f)
{
    if (f->n)
        qsort(f->p, f->n, sizeof *f->p, compare_file_paths);
}

int attest_files_read(struct attest_files *f, int dir, struct err *e)
{
    int r;

    *f = (struct attest_files){ 0 };
    r = attest_files_add(f, dir, &(struct attest_reading){ .at = "" }, e);
    attest_files_sort(f);
    return r;
}

/* --- What changed --- */

bool attest_file_same(const struct attest_file *a, const struct attest_file *b)
{
    return a->kind == b->kind && a->mode == b->mode && a->mark == b->mark && a->size == b->size &&
           strcmp(a->sha256, b->sha256) == 0 && (!a->target || strcmp(a->target, b->target) == 0);
}

/* Both are sorted: one walk through both. */
void attest_compare(struct attest_files *f, const struct attest_files *before,
                    struct json_writer *w)
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
            f->p[i].change =
                attest_file_same(&f->p[i], &before->p[k]) ? ATTEST_SAME : ATTEST_CHANGED;
        else if (order > 0)
            json_put_lossy(w, str_from(before->p[k].path));
        i += order <= 0;
        k += order >= 0;
    }
    json_end_array(w);
}

/* --- What may leave --- */

/* Whether a link's target, from where the link is, stays below the directory. */
static bool link_stays_inside(const char *path, const char *target)
{
    struct str rest = str_from(path), part;
    bool entered = false;
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
            depth = entered ? -1 : depth - 1;
        else if (part.n && !str_eq(part, STR(".")))
            entered = true;
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

const char *attest_refusal(const struct attest_file *f, const struct attest_limits *l,
                           const char **ret_rule)
{
    const char *rule = NULL, *why = NULL;

    if (f->kind == ATTEST_OTHER)
        rule = "kind", why = "a device, a pipe or a socket";
    else if (f->kind == ATTEST_FILE && (f->mode & 06000))
        rule = "setuid", why = "runs with its owner's or its group's rights";
    else if (f->kind == ATTEST_LINK && !link_stays_inside(f->path, f->target))
        rule = "link", why = "a link that leads out of the directory";
    else if (!is_plain_name(f->path) || (f->target && !is_plain_name(f->target)))
        rule = "name", why = "a name with control characters, or not in UTF-8";
    else if (f->size > l->file_bytes)
        rule = "size", why = "larger than a file may be";
    *ret_rule = rule;
    return why;
}

/* --- As JSON --- */

void attest_file_write(const struct attest_file *f, const char *change, struct json_writer *w)
{
    char mode[8];

    snprintf(mode, sizeof mode, "%04o", f->mode);
    json_begin_object(w);
    json_field_text(w, "path", f->path);
    json_field_text(w, "change", change);
    json_field_text(w, "kind", attest_kinds[f->kind]);
    json_field_text(w, "mode", mode);
    if (f->links > 1)
        json_field_uint(w, "links", f->links);
    if (f->mark == ATTEST_OPAQUE)
        json_field_bool(w, "replaces", true);
    if (f->kind == ATTEST_FILE)
        json_field_uint(w, "size", f->size);
    if (f->sha256[0]) {
        json_field_text(w, "content", attest_contents[f->content]);
        json_field_text(w, "sha256", f->sha256);
    }
    if (f->target)
        json_field_text(w, "target", f->target);
    json_end_object(w);
}

void attest_files_write(const struct attest_files *f, struct json_writer *w)
{
    json_begin_array(w);
    for (size_t i = 0; i < f->n; i++)
        attest_file_write(&f->p[i], attest_changes[f->p[i].change], w);
    json_end_array(w);
}

static void write_violation(const char *path, const char *rule, const char *why,
                            struct json_writer *w)
{
    json_begin_object(w);
    json_field_text(w, "path", path);
    json_field_text(w, "rule", rule);
    json_field_text(w, "reason", why);
    json_end_object(w);
}

size_t attest_violations_write(const struct attest_files *f, const struct attest_limits *l,
                               struct json_writer *w)
{
    uint64_t bytes = 0;
    size_t n = 0;

    json_begin_array(w);
    for (size_t i = 0; i < f->n; i++) {
        const char *rule, *why = attest_refusal(&f->p[i], l, &rule);

        bytes += f->p[i].size;
        if (why && n++ < ATTEST_VIOLATIONS_MAX)
            write_violation(f->p[i].path, rule, why, w);
    }
    if (f->n > l->files)
        n++, write_violation(".", "files", "more files than may leave", w);
    if (bytes > l->bytes)
        n++, write_violation(".", "bytes", "more bytes than may leave", w);
    json_end_array(w);
    return n;
}
