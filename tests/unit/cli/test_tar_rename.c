/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tar_rename.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/tar/tar.h"

struct member {
    enum tar_type type;
    const char *path, *link;
    uint64_t size;
};

static struct buf archive = BUF_INIT(1 << 20);
static size_t at;
static struct err e;

static void add(const struct member *m)
{
    static char head[TAR_HEAD_MAX];
    struct tar_entry entry = { .type = m->type, .mode = 0644, .size = m->size };
    char *room;
    size_t n = m->size + tar_padding(m->size);

    snprintf(entry.path, sizeof entry.path, "%s", m->path);
    snprintf(entry.link, sizeof entry.link, "%s", m->link ? m->link : "");
    buf_add(&archive, (struct str){ head, tar_encode(&entry, head) });
    CHECK(buf_room(&archive, n, &room) >= 0);
    memset(room, 'x', m->size);
    memset(room + m->size, 0, n - m->size);
    buf_grew(&archive, n);
}

static ssize_t read_archive(void *ctx, void *p, size_t n)
{
    if (n > archive.n - at)
        n = archive.n - at;
    memcpy(p, archive.p + at, n);
    at += n;
    return (ssize_t)n;
}

/* "path>link path …" of what comes out, or the error. */
static int list(const struct member *members, size_t n, const char *top, struct buf *out)
{
    static const char end[2 * TAR_BLOCK];
    AUTO_CLOSE int file = memfd_create("out", MFD_CLOEXEC);
    AUTO_FREE struct tar_reader *t = calloc(1, sizeof *t);
    int r;

    for (size_t i = 0; i < n; i++)
        add(&members[i]);
    buf_add(&archive, (struct str){ end, sizeof end });
    r = tar_rename(read_archive, NULL, file, top, &e);
    if (r < 0)
        return r;
    lseek(file, 0, SEEK_SET);
    tar_reader_init_fd(t, file);
    while ((r = tar_next(t, &e)) > 0) {
        struct str piece;
        uint64_t seen = 0;

        buf_addf(out, "%s%s%s ", t->entry.path, t->entry.link[0] ? ">" : "", t->entry.link);
        while (tar_data(t, &piece, &e) > 0)
            seen += piece.n;
        CHECK_INT(seen, t->entry.size);
    }
    CHECK_INT(r, 0);
    return 0;
}

static void check(const struct member *members, size_t n, const char *top, const char *want)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096);

    CHECK_OK(list(members, n, top, &out), e);
    CHECK_STR(buf_str(&out), want);
}

static void check_refused(const struct member *members, size_t n, const char *top)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096);

    if (list(members, n, top, &out) >= 0)
        FAIL("taken: %s", out.p);
}

static const struct member tree[] = {
    { TAR_DIR, "out/", NULL, 0 },
    { TAR_FILE, "out/a", NULL, 700 },
    { TAR_HARDLINK, "out/b", "out/a", 0 },
    { TAR_SYMLINK, "out/c", "../../etc", 0 },
};

TEST(top_is_renamed)
{
    check(tree, COUNT_OF(tree), "new", "new new/a new/b>new/a new/c>../../etc ");
}

TEST(top_is_taken_away)
{
    check(tree, COUNT_OF(tree), "", ". a b>a c>../../etc ");
}

TEST(top_of_a_whole_file_system)
{
    static const struct member root[] = { { TAR_DIR, "./", NULL, 0 },
                                          { TAR_FILE, "./a", NULL, 5 } };

    check(root, COUNT_OF(root), "new", "new new/a ");
}

TEST(top_of_a_single_file)
{
    static const struct member file[] = { { TAR_FILE, "some", NULL, 3 } };

    check(file, 1, "other", "other ");
}

TEST(nothing_beside_the_top)
{
    static const struct member beside[] = { { TAR_DIR, "out", NULL, 0 },
                                            { TAR_FILE, ".bashrc", NULL, 3 } };

    check_refused(beside, COUNT_OF(beside), "out");
}

TEST(nothing_above_the_top)
{
    static const struct member above[] = { { TAR_DIR, "out", NULL, 0 },
                                           { TAR_FILE, "out/../../x", NULL, 3 } };

    check_refused(above, COUNT_OF(above), "out");
}

TEST(no_hard_link_out_of_the_top)
{
    static const struct member out[] = { { TAR_DIR, "out", NULL, 0 },
                                         { TAR_HARDLINK, "out/x", "etc/passwd", 0 } };

    check_refused(out, COUNT_OF(out), "out");
}

TEST(a_file_has_no_content_to_take_out)
{
    static const struct member file[] = { { TAR_FILE, "some", NULL, 3 } };

    check_refused(file, 1, "");
}

TEST(archive_that_is_cut)
{
    AUTO_CLOSE int file = memfd_create("out", MFD_CLOEXEC);

    add(&tree[0]);
    CHECK(tar_rename(read_archive, NULL, file, "x", &e) < 0);
}
