/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/archive.h"

#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "engine/layers/view.h"
#include "scratch.h"

static struct err e;

#define NAME "lay_0000000000000000000a"
#define MADE "lay_0000000000000000000b"

static const char manifest[] = "{\"some\":\"manifest\"}";

/* One of each kind. */
static void make_layer(int storage)
{
    const struct timespec times[2] = { { 5, 6 }, { 7, 8 } };
    int fd, dir;

    (void)mkdirat(storage, "layers", 0700);
    CHECK_INT(mkdirat(storage, "layers/" NAME, 0700), 0);
    CHECK_INT(mkdirat(storage, "layers/" NAME "/fs", 0755), 0);
    dir = openat(storage, "layers/" NAME "/fs", O_RDONLY | O_DIRECTORY);
    fd = openat(dir, "sparse", O_WRONLY | O_CREAT, 0640);
    CHECK(dir >= 0 && fd >= 0 && pwrite(fd, "x", 1, 1 << 20) == 1);
    CHECK_INT(fsetxattr(fd, "user.note", "\0value", 6, 0), 0);
    CHECK_INT(futimens(fd, times), 0);
    close(fd);
    CHECK_INT(linkat(dir, "sparse", dir, "again", 0), 0);
    CHECK_INT(symlinkat("/nowhere", dir, "link"), 0);
    CHECK_INT(mkfifoat(dir, "fifo", 0600), 0);
    CHECK_INT(mknodat(dir, "gone", S_IFCHR, makedev(0, 0)), 0);
    CHECK_INT(mkdirat(dir, "opaque", 0700), 0);
    fd = openat(dir, "opaque", O_RDONLY | O_DIRECTORY);
    CHECK_OK(view_set_opaque(fd, &e), e);
    close(fd);
    close(dir);
}

static void measure(int storage, const char *name, char out[static LAYER_NAME_MAX])
{
    struct layers_job job;
    struct layers_said said;

    layers_job_fill(&job, LAYERS_DIGEST, name);
    said = scratch_do(storage, &job, NULL, 0);
    CHECK_OK(said.r, said.err);
    snprintf(out, LAYER_NAME_MAX, "sha256-%.64s", said.text + sizeof "sha256:" - 1);
}

static int make_file(int storage, const char *name, const char *text)
{
    int fd = openat(storage, name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int export_layer(int storage, const char *measured)
{
    struct layers_said said;
    struct layers_job job;
    int fds[2] = { make_file(storage, "file", ""), make_file(storage, "manifest", manifest) };

    layers_job_fill(&job, LAYERS_EXPORT, NULL);
    snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", NAME);
    snprintf(job.against[job.n_against++], LAYER_NAME_MAX, "%s", measured);
    said = scratch_do(storage, &job, fds, 2);
    CHECK_OK(said.r, said.err);
    close(fds[1]);
    CHECK_INT(lseek(fds[0], 0, SEEK_SET), 0);
    return fds[0];
}

static struct layers_said import(int storage, int file, const char *measured, uint64_t bytes)
{
    struct layers_job job;

    layers_job_fill(&job, LAYERS_IMPORT, NULL);
    job.bytes_max = bytes;
    snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", MADE);
    snprintf(job.against[job.n_against++], LAYER_NAME_MAX, "%s", measured);
    return scratch_do(storage, &job, &file, 1);
}

TEST(what_is_exported_is_imported_as_it_was)
{
    int storage = scratch_storage(), file, text;
    char was[LAYER_NAME_MAX], is[LAYER_NAME_MAX], room[64];
    struct layers_said said;
    struct layers_job job;
    struct stat st, other;

    make_layer(storage);
    measure(storage, NAME, was);
    file = export_layer(storage, was);
    text = make_file(storage, "text", "");
    layers_job_fill(&job, LAYERS_MANIFEST, NULL);
    said = scratch_do(storage, &job, (const int[]){ file, text }, 2);
    CHECK_OK(said.r, said.err);
    CHECK_INT(pread(text, room, sizeof room, 0), sizeof manifest - 1);
    CHECK(memcmp(room, manifest, sizeof manifest - 1) == 0);
    CHECK_INT(lseek(file, 0, SEEK_SET), 0);
    said = import(storage, file, was, 0);
    CHECK_OK(said.r, said.err);
    measure(storage, MADE, is);
    CHECK_STR(str_from(is), was);
    CHECK_INT(fstatat(storage, "layers/" MADE "/fs/sparse", &st, 0), 0);
    CHECK_INT(fstatat(storage, "layers/" MADE "/fs/again", &other, 0), 0);
    CHECK(st.st_ino == other.st_ino && st.st_blocks < 1024 && st.st_mtim.tv_nsec == 8);
}

/* Now and then a bit of what is packed means nothing: the file is the same without it. */
static void check_taken(int storage, const char *was, off_t at)
{
    char is[LAYER_NAME_MAX];
    struct layers_job job;

    measure(storage, MADE, is);
    if (strcmp(is, was) != 0)
        FAIL("byte %lld is changed, and nobody noticed", (long long)at);
    layers_job_fill(&job, LAYERS_REMOVE, MADE);
    CHECK_INT(scratch_do(storage, &job, NULL, 0).r, 0);
}

/* Nothing of one that is wrong stays, wherever it is wrong. */
TEST(a_file_that_was_changed_is_refused)
{
    int storage = scratch_storage(), file;
    char was[LAYER_NAME_MAX], other[LAYER_NAME_MAX];
    struct layers_said said;
    off_t size;

    make_layer(storage);
    measure(storage, NAME, was);
    file = export_layer(storage, was);
    size = lseek(file, 0, SEEK_END);
    for (off_t at = 0; at < size; at += 7) {
        unsigned char byte, bad;

        CHECK(pread(file, &byte, 1, at) == 1);
        bad = byte ^ 0x40;
        CHECK(pwrite(file, &bad, 1, at) == 1 && lseek(file, 0, SEEK_SET) == 0);
        said = import(storage, file, was, 0);
        CHECK(pwrite(file, &byte, 1, at) == 1);
        if (said.r >= 0)
            check_taken(storage, was, at);
        if (scratch_has(storage, "layers/" MADE))
            FAIL("byte %lld is changed, and a layer is there", (long long)at);
    }
    memcpy(other, was, sizeof other);
    other[10] = other[10] == '0' ? '1' : '0';
    CHECK_INT(lseek(file, 0, SEEK_SET), 0);
    CHECK_INT(import(storage, file, other, 0).r, -ERR_INVALID); /* another than it was to be */
    CHECK_INT(ftruncate(file, size - 20), 0);
    CHECK_INT(lseek(file, 0, SEEK_SET), 0);
    CHECK(import(storage, file, was, 0).r < 0);
    CHECK(!scratch_has(storage, "layers/" MADE));
}

TEST(a_file_that_is_larger_than_allowed_is_refused)
{
    int storage = scratch_storage(), file;
    char was[LAYER_NAME_MAX];

    make_layer(storage);
    measure(storage, NAME, was);
    file = export_layer(storage, was);
    CHECK_INT(import(storage, file, was, 1000).r, -ERR_TOO_BIG);
    CHECK(!scratch_has(storage, "layers/" MADE));
}
