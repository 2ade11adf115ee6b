/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/content.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/tap.h"

enum { BLOCK = 4096, BLOCKS = 700 }; /* more than two chunks of a copy */

static struct err e;
static uint64_t counted, written;

static int count(void *user, uint64_t n, bool is_written, struct err *err)
{
    counted += n;
    written += is_written ? n : 0;
    return 0;
}

static const struct content_counter content = { count, NULL };

static int empty_file(void)
{
    FILE *f = tmpfile();

    CHECK(f);
    return fileno(f);
}

/* Blocks of holes, zeros and letters, and an end that is no block's. */
static off_t fill(int fd, unsigned seed)
{
    char block[BLOCK];
    off_t size = 0;

    srand(seed);
    for (int i = 0; i < BLOCKS; i++) {
        int kind = rand() % 6;

        memset(block, kind < 2 ? 0 : 'a' + kind, sizeof block);
        if (kind > 0 && rand() % 8)
            CHECK(pwrite(fd, block, sizeof block, (off_t)i * BLOCK) == BLOCK);
    }
    size = (off_t)(BLOCKS - rand() % 5) * BLOCK - rand() % BLOCK;
    CHECK(ftruncate(fd, size) == 0);
    return size;
}

static void check_same(int one, int other, off_t size)
{
    static char a[BLOCKS * BLOCK], b[BLOCKS * BLOCK];
    struct stat st;

    CHECK(fstat(other, &st) == 0 && st.st_size == size);
    CHECK(pread(one, a, sizeof a, 0) == size && pread(other, b, sizeof b, 0) == size);
    CHECK(memcmp(a, b, (size_t)size) == 0);
    for (off_t at = 0; at < size;) {
        off_t data = lseek(one, at, SEEK_DATA);

        CHECK_INT(lseek(other, at, SEEK_DATA), data);
        if (data < 0)
            break;
        at = lseek(one, data, SEEK_HOLE);
        CHECK_INT(lseek(other, data, SEEK_HOLE), at);
    }
}

TEST(a_copy_has_the_same_holes)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        int from = empty_file(), to = empty_file();
        off_t size = fill(from, seed);

        CHECK_OK(content_copy(&content, from, to, size, &e), e);
        check_same(from, to, size);
        close(from);
        close(to);
    }
    CHECK(counted == written && counted > 0);
}

TEST(anything_can_be_mended)
{
    for (unsigned seed = 0; seed < 40; seed++) {
        int from = empty_file(), to = empty_file();
        off_t size = fill(from, seed);

        (void)fill(to, seed + 1000);
        CHECK_OK(content_update(&content, from, to, size, &e), e);
        check_same(from, to, size);
        counted = written = 0;
        CHECK_OK(content_update(&content, from, to, size, &e), e);
        CHECK(counted > 0 && written == 0); /* nothing differs any more */
        close(from);
        close(to);
    }
}

TEST(an_empty_file)
{
    int from = empty_file(), to = empty_file();
    struct stat st;

    (void)fill(to, 1);
    CHECK_OK(content_update(&content, from, to, 0, &e), e);
    CHECK(fstat(to, &st) == 0 && st.st_size == 0);
}
