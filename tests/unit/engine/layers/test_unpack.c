/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/budget.h"
#include "engine/layers/worker.h"
#include "scratch.h"

/* The name that an archive's content gives it. */
static void name_of(FILE *tar, char name[static LAYER_NAME_MAX])
{
    static char bytes[8 << 20];
    unsigned char digest[CRYPTO_SHA256_SIZE];
    struct buf hex = BUF_INIT(64);
    size_t n;

    rewind(tar);
    n = fread(bytes, 1, sizeof bytes, tar);
    CHECK(n > 0 && n < sizeof bytes);
    crypto_sha256((struct str){ bytes, n }, digest);
    crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex);
    snprintf(name, LAYER_NAME_MAX, "sha256-%s", hex.p);
    buf_done(&hex);
}

/* An archive, made by tar of a directory that is gone at once: packed, and what it is called. */
static int make_archive(const char *make, const char *pack, char name[static LAYER_NAME_MAX])
{
    FILE *plain = tmpfile(), *packed = tmpfile();
    char command[1024];

    CHECK(plain && packed);
    snprintf(command, sizeof command,
             "d=$(mktemp -d) && cd $d && (%s) && tar --owner=0 --group=0 -c . >/proc/self/fd/%d; "
             "cd /; rm -rf $d; (%s) </proc/self/fd/%d >/proc/self/fd/%d",
             make, fileno(plain), pack, fileno(plain), fileno(packed));
    CHECK_INT(system(command), 0);
    name_of(plain, name);
    rewind(packed);
    return fileno(packed);
}

static struct layers_said do_job(int storage, const struct layers_job *job, int fd)
{
    struct layers_said said;
    int budget = budget_make(1 << 30, 1000, &said.err);

    CHECK_OK(budget, said.err);
    said = scratch_do(storage, job, (int[]){ fd, budget }, 2);
    close(budget);
    return said;
}

static struct layers_said unpack(int storage, const char *name, int fd, uint64_t bytes_max)
{
    struct layers_job job;

    layers_job_fill(&job, LAYERS_UNPACK, name);
    job.bytes_max = bytes_max;
    return do_job(storage, &job, fd);
}

static void check_kind(const char *pack)
{
    int storage = scratch_storage(), fd;
    char name[LAYER_NAME_MAX], path[LAYER_NAME_MAX + 64];
    struct layers_said said, again;
    struct layers_job job;
    struct stat st;

    fd = make_archive("mkdir d && echo x >d/f && touch d/.wh.gone && chmod 4755 d/f", pack, name);
    said = unpack(storage, name, fd, 0);
    CHECK_OK(said.r, said.err);
    snprintf(path, sizeof path, "layers/%s/fs/d/gone", name);
    CHECK(fstatat(storage, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode));
    snprintf(path, sizeof path, "layers/%s/fs/d/f", name);
    CHECK(fstatat(storage, path, &st, 0) == 0 && (st.st_mode & 07777) == 04755);
    CHECK(strncmp(said.text, "sha256:", 7) == 0);
    layers_job_fill(&job, LAYERS_DIGEST, name);
    again = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(again.r, again.err);
    CHECK_STR(str_from(again.text), said.text);
    /* A byte changes, and that shows. */
    fd = openat(storage, path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "y", 1) == 1);
    close(fd);
    again = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(again.r, again.err);
    CHECK(strcmp(again.text, said.text) != 0);
}

TEST(a_plain_layer)
{
    check_kind("cat");
}

TEST(a_layer_compressed_with_gzip)
{
    check_kind("gzip -c");
}

TEST(a_layer_compressed_with_zstd)
{
    if (access("/usr/bin/zstd", X_OK) < 0)
        SKIP("there is no zstd");
    check_kind("zstd -qc");
}

/* In the middle of something else, as in the archive of an image. */
static int surround(int packed, uint64_t *ret_at, uint64_t *ret_size)
{
    FILE *f = tmpfile();
    char bytes[64 << 10];
    ssize_t n = pread(packed, bytes, sizeof bytes, 0);

    CHECK(f && n > 0 && n < (ssize_t)sizeof bytes);
    CHECK(fprintf(f, "something in front of it") > 0);
    *ret_at = (uint64_t)ftell(f);
    *ret_size = (uint64_t)n;
    CHECK(fwrite(bytes, 1, (size_t)n, f) == (size_t)n && fprintf(f, "and behind it") > 0);
    CHECK(fflush(f) == 0);
    return fileno(f);
}

static void check_part(const char *pack)
{
    int storage = scratch_storage(), fd;
    struct layers_said said;
    struct layers_job job;
    char path[LAYER_NAME_MAX + 64];

    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fd = make_archive("seq 3000 >f", pack, job.name);
    fd = surround(fd, &job.at, &job.size);
    said = do_job(storage, &job, fd);
    CHECK_OK(said.r, said.err);
    snprintf(path, sizeof path, "layers/%s/fs/f", job.name);
    CHECK(scratch_has(storage, path));
}

TEST(a_part_of_a_file)
{
    check_part("cat");
}

TEST(a_part_of_a_file_that_is_compressed)
{
    check_part("gzip -c");
}

/* What is packed is damaged: nothing of what is around it is read in its place. */
static void check_cut(unsigned front, unsigned back)
{
    int storage = scratch_storage(), fd;
    struct layers_said said;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fd = make_archive("seq 3000 >f", "gzip -c", job.name);
    fd = surround(fd, &job.at, &job.size);
    job.at += front;
    job.size -= front + back;
    said = do_job(storage, &job, fd);
    CHECK_INT(said.r, -ERR_INVALID);
}

TEST(a_part_that_begins_too_late)
{
    check_cut(1, 0);
}

/* It does not stand for all that follows. */
TEST(a_part_of_nothing)
{
    int storage = scratch_storage(), fd;
    struct layers_said said;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fd = make_archive("echo x >f", "cat", job.name);
    fd = surround(fd, &job.at, &job.size);
    job.size = 0;
    said = do_job(storage, &job, fd);
    CHECK_INT(said.r, -ERR_INVALID);
}

TEST(a_part_that_ends_too_early)
{
    check_cut(0, 1);
}

TEST(packed_bytes_that_are_not_what_was_said)
{
    int storage = scratch_storage(), fd;
    char path[LAYER_NAME_MAX + 16];
    struct layers_said said;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fd = make_archive("echo x >f", "cat", job.name);
    memcpy(job.packed, job.name, sizeof job.packed); /* it is not packed: both are the same */
    job.packed[20] = job.packed[20] == '0' ? '1' : '0';
    said = do_job(storage, &job, fd);
    CHECK_INT(said.r, -ERR_UPSTREAM);
    snprintf(path, sizeof path, "layers/%s", job.name);
    CHECK(!scratch_has(storage, path));
    memcpy(job.packed, job.name, sizeof job.packed);
    said = do_job(storage, &job, fd);
    CHECK_OK(said.r, said.err);
}

static void refuse(int storage, const char *name, int fd, uint64_t max, int r, const char *says)
{
    struct layers_said said = unpack(storage, name, fd, max);
    char path[LAYER_NAME_MAX + 16];

    if (said.r != r || !strstr(said.err.msg, says))
        FAIL("%d '%s' instead of %d '%s'", said.r, said.err.msg, r, says);
    snprintf(path, sizeof path, "layers/%s", name);
    CHECK(!scratch_has(storage, path));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0); /* nothing is left */
}

TEST(content_that_is_not_what_the_image_says)
{
    int storage = scratch_storage(), fd;
    char name[LAYER_NAME_MAX];

    fd = make_archive("echo x >f", "cat", name);
    name[7] = name[7] == '0' ? '1' : '0';
    refuse(storage, name, fd, 0, -ERR_INVALID, "but the image says");
}

TEST(a_layer_that_is_cut_off)
{
    int storage = scratch_storage(), fd;
    char name[LAYER_NAME_MAX];

    fd = make_archive("seq 100000 >f", "gzip -c | head -c 5000", name);
    refuse(storage, name, fd, 0, -ERR_INVALID, "cut off");
}

TEST(a_bomb)
{
    int storage = scratch_storage(), fd;
    char name[LAYER_NAME_MAX];

    fd = make_archive("head -c 4000000 /dev/zero >f", "gzip -c", name);
    refuse(storage, name, fd, 1 << 20, -ERR_TOO_BIG, "");
}

/* Each of them alone would do. */
TEST(layers_that_hold_too_much_together)
{
    int storage = scratch_storage(), fds[2];
    char path[LAYER_NAME_MAX + 16];
    struct layers_said said;
    struct layers_job job;
    struct err e;

    fds[1] = budget_make(3000, 1000, &e);
    CHECK_OK(fds[1], e);
    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fds[0] = make_archive("head -c 1500 /dev/zero >f", "cat", job.name);
    said = scratch_do(storage, &job, fds, 2);
    CHECK_OK(said.r, said.err);
    fds[0] = make_archive("head -c 1501 /dev/zero >f", "cat", job.name);
    said = scratch_do(storage, &job, fds, 2);
    CHECK_INT(said.r, -ERR_TOO_BIG);
    CHECK(strstr(said.err.msg, "images.max_bytes"));
    snprintf(path, sizeof path, "layers/%s", job.name);
    CHECK(!scratch_has(storage, path));
    CHECK_INT(unlinkat(storage, "tmp", AT_REMOVEDIR), 0);
}

TEST(files_that_are_too_many_together)
{
    int storage = scratch_storage(), fds[2];
    struct layers_said said;
    struct layers_job job;
    struct err e;

    layers_job_fill(&job, LAYERS_UNPACK, NULL);
    fds[0] = make_archive("touch a b c", "cat", job.name); /* and "." */
    fds[1] = budget_make(0, 3, &e);
    CHECK_OK(fds[1], e);
    said = scratch_do(storage, &job, fds, 2);
    CHECK_INT(said.r, -ERR_TOO_BIG);
    CHECK(strstr(said.err.msg, "files"));
    fds[1] = budget_make(0, 4, &e);
    CHECK_OK(fds[1], e);
    said = scratch_do(storage, &job, fds, 2);
    CHECK_OK(said.r, said.err);
}

TEST(a_full_disk)
{
    int storage = scratch_storage(), fd;
    char name[LAYER_NAME_MAX];
    struct layers_said said;
    struct layers_job job;

    fd = make_archive("echo x >f", "cat", name);
    layers_job_fill(&job, LAYERS_UNPACK, name);
    job.free_min = UINT64_C(1) << 60;
    said = do_job(storage, &job, fd);
    scratch_lacked_room(storage, &said, ERR_TOO_BIG, name);
}

TEST(a_layer_that_is_not_there_is_not_measured)
{
    int storage = scratch_storage();
    struct layers_said said;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_DIGEST,
                    "sha256-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_INT(said.r, -ERR_NOT_FOUND);
}
