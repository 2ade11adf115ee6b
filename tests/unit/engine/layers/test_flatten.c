/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "engine/layers/view.h"
#include "scratch.h"

static struct err e;

#define FLOOR  "lay_0000000000000000000a"
#define LOWER  "lay_0000000000000000000b"
#define UPPER  "lay_0000000000000000000c"
#define RESULT "lay_0000000000000000000d"

/* What a layer holds: "dir/", "file", "-removed", "opaque!/". */
static void make_layer(int storage, const char *name, const char *const *entries)
{
    char path[256];

    (void)mkdirat(storage, "layers", 0700);
    snprintf(path, sizeof path, "layers/%s", name);
    CHECK_INT(mkdirat(storage, path, 0700), 0);
    snprintf(path, sizeof path, "layers/%s/fs", name);
    CHECK_INT(mkdirat(storage, path, 0755), 0);
    for (; *entries; entries++) {
        const char *x = *entries + (**entries == '-');
        size_t n = strcspn(x, "!");
        bool is_dir = x[strlen(x) - 1] == '/';
        int fd;

        snprintf(path, sizeof path, "layers/%s/fs/%.*s", name, (int)n, x);
        if (**entries == '-') {
            CHECK_INT(mknodat(storage, path, S_IFCHR, makedev(0, 0)), 0);
            continue;
        }
        if (is_dir)
            CHECK_INT(mkdirat(storage, path, 0755), 0);
        fd = openat(storage, path, is_dir ? O_RDONLY : O_WRONLY | O_CREAT, 0644);
        CHECK(fd >= 0);
        if (x[n])
            CHECK_OK(view_set_opaque(fd, &e), e);
        if (!is_dir)
            CHECK(write(fd, name, strlen(name)) == (ssize_t)strlen(name));
        close(fd);
    }
}

static void put(char to[][LAYER_NAME_MAX], uint64_t *n, const char *name)
{
    snprintf(to[(*n)++], LAYER_NAME_MAX, "%s", name);
}

static void fill_job(struct layers_job *job)
{
    layers_job_fill(job, LAYERS_FLATTEN, RESULT);
    put(job->below, &job->n_below, UPPER);
    put(job->below, &job->n_below, LOWER);
}

static struct layers_said flatten(int storage, const char *floor, int usr)
{
    struct layers_job job;

    fill_job(&job);
    if (floor)
        put(job.against, &job.n_against, floor);
    return scratch_do(storage, &job, &usr, usr >= 0);
}

/* 'w' for what says "removed", 'd' and 'f', 'o' for an opaque directory; '-': nothing. */
static char kind_of(int storage, const char *path)
{
    char full[256];
    struct stat st;
    int fd, r;

    snprintf(full, sizeof full, "layers/" RESULT "/fs/%s", path);
    if (fstatat(storage, full, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return '-';
    if (!S_ISDIR(st.st_mode))
        return view_is_whiteout(&st) ? 'w' : 'f';
    fd = openat(storage, full, O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    r = view_is_opaque(fd);
    close(fd);
    return r ? 'o' : 'd';
}

static const char *const floor_has[] = { "a",    "b",  "c/",  "c/in", "d/",
                                         "d/in", "e/", "e/f", "g",    NULL };
static const char *const lower_has[] = { "-a",       "b",  "new/", "new/x", "-c", "d",
                                         "opaque!/", "e/", "e/f",  "mine",  "g",  NULL };
static const char *const upper_has[] = { "-b",      "new/",        "-new/x", "c/", "d/",   "d/own",
                                         "opaque/", "-opaque/was", "-mine",  "e/", "-e/f", NULL };

static const struct {
    const char *path;
    char on_floor, alone;
} shows
    [] = {
        { "a", 'w', '-' },   /* removed of the floor */
        { "b", 'w', '-' },   /* changed, then removed */
        { "new", 'd', 'd' }, /* made, and what was in it removed: nothing is left to say */
        { "new/x", '-', '-' },      { "mine", '-', '-' },
        { "c", 'o', 'd' }, /* removed, then made again: that of the floor must not show */
        { "d", 'o', 'd' }, /* … also where a file was in between */
        { "d/own", 'f', 'f' },      { "opaque", 'd', 'd' },
        { "opaque/was", '-', '-' }, { "e/f", 'w', '-' },
        { "g", 'f', 'f' },
    };

TEST(what_hides_an_image_is_kept)
{
    int storage = scratch_storage();
    struct layers_said said;

    make_layer(storage, FLOOR, floor_has);
    make_layer(storage, LOWER, lower_has);
    make_layer(storage, UPPER, upper_has);
    said = flatten(storage, FLOOR, -1);
    CHECK_OK(said.r, said.err);
    for (size_t i = 0; i < sizeof shows / sizeof shows[0]; i++)
        if (kind_of(storage, shows[i].path) != shows[i].on_floor)
            FAIL("%s is %c, not %c", shows[i].path, kind_of(storage, shows[i].path),
                 shows[i].on_floor);
}

TEST(on_nothing_there_is_nothing_to_hide)
{
    int storage = scratch_storage();
    struct layers_said said;

    make_layer(storage, LOWER, lower_has);
    make_layer(storage, UPPER, upper_has);
    said = flatten(storage, NULL, -1);
    CHECK_OK(said.r, said.err);
    for (size_t i = 0; i < sizeof shows / sizeof shows[0]; i++)
        if (kind_of(storage, shows[i].path) != shows[i].alone)
            FAIL("%s is %c, not %c", shows[i].path, kind_of(storage, shows[i].path),
                 shows[i].alone);
}

TEST(what_is_left_free_stays_free)
{
    int storage = scratch_storage();
    struct layers_said said;
    struct layers_job job;

    make_layer(storage, LOWER, lower_has);
    make_layer(storage, UPPER, upper_has);
    fill_job(&job);
    job.free_min = UINT64_C(1) << 60;
    said = scratch_do(storage, &job, NULL, 0);
    scratch_lacked_room(storage, &said, ERR_FULL, RESULT);
}

TEST(on_the_host_what_hides_its_system_is_kept)
{
    static const char *const usr_has[] = { "bin/", "bin/yes", NULL };
    static const char *const lower[] = { "usr/",      "usr/bin/", "usr/bin/yes", "usr/own/",
                                         "usr/own/x", "etc/",     "etc/x",       NULL };
    static const char *const upper[] = { "usr/",       "usr/bin/", "-usr/bin/yes", "usr/own/",
                                         "-usr/own/x", "etc/",     "-etc/x",       NULL };
    int storage = scratch_storage(), usr;
    struct layers_said said;

    make_layer(storage, FLOOR, usr_has);
    make_layer(storage, LOWER, lower);
    make_layer(storage, UPPER, upper);
    usr = openat(storage, "layers/" FLOOR "/fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(usr >= 0);
    said = flatten(storage, NULL, usr);
    CHECK_OK(said.r, said.err);
    CHECK_INT(kind_of(storage, "usr/bin/yes"), 'w');
    CHECK_INT(kind_of(storage, "usr/own/x"), '-');
    CHECK_INT(kind_of(storage, "usr/own"), 'd');
    CHECK_INT(kind_of(storage, "etc/x"), '-');
    close(usr);
}

TEST(a_floor_that_is_not_there)
{
    int storage = scratch_storage();
    struct layers_said said;

    make_layer(storage, LOWER, lower_has);
    make_layer(storage, UPPER, upper_has);
    said = flatten(storage, FLOOR, -1);
    CHECK_INT(said.r, -ERR_NOT_FOUND);
    CHECK(!scratch_has(storage, "layers/" RESULT));
}
