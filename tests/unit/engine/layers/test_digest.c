/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/digest.h"

#include <string.h>
#include <sys/xattr.h>

#include "engine/layers/worker.h"
#include "scratch.h"
#include "lib/tar/tree.h"

static struct err e;

static void none(void *ctx, uint64_t bytes, uint64_t entries)
{
}

static struct tree_digest measure(int dir)
{
    struct tree_digest m;

    CHECK_OK(digest_tree(dir, none, NULL, &m, &e), e);
    CHECK(strncmp(m.digest, "sha256:", 7) == 0 && strlen(m.digest) == 7 + 64);
    return m;
}

static void check_differs(int dir, const struct tree_digest *from, const char *what)
{
    const struct tree_digest now = measure(dir);

    if (strcmp(now.digest, from->digest) == 0)
        FAIL("%s does not show", what);
}

static void check_same(int dir, const struct tree_digest *as)
{
    const struct tree_digest now = measure(dir);

    CHECK_STR(str_from(now.digest), as->digest);
}

/* As old as everything here is. */
static void age(int dir, const char *name)
{
    const struct timespec then[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

    CHECK_INT(utimensat(dir, name, then, AT_SYMLINK_NOFOLLOW), 0);
}

static void put_at(int dir, const char *name, const char *text, off_t at)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT, 0644);

    CHECK(fd >= 0 && pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
    close(fd);
    age(dir, name);
    age(dir, ".");
}

static void put(int dir, const char *name, const char *text)
{
    put_at(dir, name, text, 0);
}

static int sub(int dir, const char *name)
{
    int fd;

    CHECK_INT(mkdirat(dir, name, 0755), 0);
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    return fd;
}

TEST(the_order_does_not_matter)
{
    int top = scratch_storage(), one = sub(top, "one"), two = sub(top, "two");
    struct tree_digest m;
    char name[16];

    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "f%d", i);
        put(one, name, name);
        snprintf(name, sizeof name, "f%d", 499 - i);
        put(two, name, name);
    }
    m = measure(one);
    CHECK_INT(m.entries, 500);
    check_same(two, &m);
}

TEST(every_change_shows)
{
    int top = scratch_storage(), dir = sub(top, "d"), fd;
    struct tree_digest m;

    put(dir, "a", "content");
    m = measure(dir);
    put(dir, "a", "cOntent");
    check_differs(dir, &m, "another byte");
    put(dir, "a", "content");
    check_same(dir, &m);
    CHECK_INT(fchmodat(dir, "a", 0600, 0), 0);
    check_differs(dir, &m, "another mode");
    CHECK_INT(fchmodat(dir, "a", 0644, 0), 0);
    CHECK_INT(utimensat(dir, "a", NULL, 0), 0);
    check_differs(dir, &m, "another time");
    age(dir, "a");
    CHECK_INT(renameat(dir, "a", dir, "b"), 0);
    age(dir, ".");
    check_differs(dir, &m, "another name");
    CHECK_INT(renameat(dir, "b", dir, "a"), 0);
    age(dir, ".");
    check_same(dir, &m);
    fd = openat(dir, "a", O_RDWR);
    CHECK(fd >= 0);
    if (fsetxattr(fd, "user.x", "y", 1, 0) == 0)
        check_differs(dir, &m, "an attribute");
    close(fd);
}

/* Where one tree has in one file what the other has in two, or in the other one. */
TEST(what_belongs_to_whom_shows)
{
    int top = scratch_storage(), one = sub(top, "one"), two = sub(top, "two");
    struct tree_digest m;

    put(one, "a", "first");
    put(one, "b", "other");
    put(two, "a", "other");
    put(two, "b", "first");
    m = measure(one);
    check_differs(two, &m, "contents that were swapped");
    close(sub(one, "d"));
    put(one, "d/x", "same");
    age(one, "d");
    age(one, ".");
    m = measure(one);
    CHECK_INT(renameat(one, "d/x", one, "x"), 0);
    age(one, "d");
    age(one, ".");
    check_differs(one, &m, "a file that was moved");
}

/* Where one value ends and the next name begins. */
/* Names, content and how many names each file has are the same. */
TEST(which_names_are_one_file_shows)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    int dir = scratch_storage();
    struct tree_digest was;

    put_at(dir, "a", "x", 0);
    put_at(dir, "c", "x", 0);
    CHECK_INT(linkat(dir, "a", dir, "b", 0) + linkat(dir, "c", dir, "d", 0), 0);
    age(dir, ".");
    was = measure(dir);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(unlinkat(dir, names[i], 0), 0);
    put_at(dir, "b", "x", 0);
    put_at(dir, "a", "x", 0);
    CHECK_INT(linkat(dir, "b", dir, "d", 0) + linkat(dir, "a", dir, "c", 0), 0);
    age(dir, ".");
    check_differs(dir, &was, "who is whose other name");
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(unlinkat(dir, names[i], 0), 0);
    put_at(dir, "d", "x", 0);
    put_at(dir, "b", "x", 0);
    CHECK_INT(linkat(dir, "d", dir, "c", 0) + linkat(dir, "b", dir, "a", 0), 0);
    age(dir, ".");
    check_same(dir, &was);
}

TEST(attributes_do_not_run_into_each_other)
{
    static const char both[] = "1user.b\0"
                               "1\0002";
    int top = scratch_storage(), dir = sub(top, "d"), fd;
    struct tree_digest m;

    put(dir, "a", "");
    fd = openat(dir, "a", O_RDWR);
    CHECK(fd >= 0);
    if (fsetxattr(fd, "user.a", both, sizeof both - 1, 0) < 0)
        SKIP("no attributes in /tmp");
    m = measure(dir);
    CHECK(fsetxattr(fd, "user.a", "1", 1, 0) == 0 && fsetxattr(fd, "user.b", "2", 1, 0) == 0);
    close(fd);
    check_differs(dir, &m, "a value that looks like an attribute");
}

TEST(holes_are_zeros_and_take_no_time)
{
    static char zeros[3 * TREE_CHUNK];
    int top = scratch_storage(), one = sub(top, "one"), two = sub(top, "two"), fd;
    struct tree_digest m;

    put_at(one, "f", "end", sizeof zeros);
    fd = openat(two, "f", O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, zeros, sizeof zeros) == (ssize_t)sizeof zeros);
    close(fd);
    put_at(two, "f", "end", sizeof zeros);
    m = measure(one);
    check_same(two, &m);
    put_at(two, "f", "x", TREE_CHUNK);
    check_differs(two, &m, "a byte where the hole was");
    CHECK_INT(unlinkat(two, "f", 0), 0);
    put_at(two, "f", "end", sizeof zeros + TREE_CHUNK);
    check_differs(two, &m, "a longer hole");
    fd = openat(one, "huge", O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)1 << 42) == 0); /* a day to read */
    close(fd);
    m = measure(one);
    CHECK(m.bytes < TREE_CHUNK * 4);
}
