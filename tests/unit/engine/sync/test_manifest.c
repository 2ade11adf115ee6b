/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/manifest.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static struct err e;
static const struct sync_limits no_limits;

static struct sync_entry *add(struct sync_manifest *m, const char *path, enum sync_kind kind)
{
    struct sync_entry *x;

    CHECK_OK(sync_manifest_add(m, str_from(path), &x, &e), e);
    x->recorded = kind != KIND_NONE;
    x->value.kind = kind;
    x->value.hash = kind == KIND_FILE ? 77 : 0;
    return x;
}

static int saved(struct sync_manifest *m)
{
    int fd = memfd_create("manifest", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_OK(sync_manifest_save(m, fd, &e), e);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static int finished(struct sync_manifest *m)
{
    int fd = saved(m);

    sync_manifest_done(m);
    return fd;
}

static int sample(void)
{
    struct sync_manifest m;
    struct sync_entry *x;

    CHECK_OK(sync_manifest_init(&m, &no_limits, &e), e);
    add(&m, "b", KIND_DIR)->value.mode = 0755;
    x = add(&m, "b/file", KIND_FILE);
    x->value.mode = 0640;
    x->identity = (struct sync_identity){ 1, 2, 3, 4 };
    add(&m, "a link", KIND_LINK);
    add(&m, "only seen", KIND_NONE);
    return finished(&m);
}

static int load(int fd, const struct sync_limits *limits, struct sync_manifest *m)
{
    CHECK_OK(sync_manifest_init(m, limits, &e), e);
    return sync_manifest_load(m, fd, &e);
}

static int try_load(int fd, struct sync_limits limits)
{
    struct sync_manifest m;
    int r = load(fd, &limits, &m);

    sync_manifest_done(&m);
    return r;
}

TEST(there_and_back)
{
    struct sync_manifest m;
    const struct sync_entry *x;

    CHECK_OK(load(sample(), &no_limits, &m), e);
    CHECK_INT(m.count, 3);
    x = sync_manifest_find(&m, STR("b/file"));
    CHECK(x && x->recorded && x->value.kind == KIND_FILE && x->value.mode == 0640);
    CHECK(x->value.hash == 77 && x->identity.ctime_ns == 4);
    CHECK(!sync_manifest_find(&m, STR("only seen")));
    sync_manifest_done(&m);
}

TEST(what_is_cut_off_is_no_manifest)
{
    int fd = sample(), cut;
    off_t size = lseek(fd, 0, SEEK_END);

    for (off_t n = 0; n < size; n++) {
        char bytes[4096];

        cut = memfd_create("cut", MFD_CLOEXEC);
        CHECK(pread(fd, bytes, (size_t)n, 0) == n && write(cut, bytes, (size_t)n) == n);
        CHECK(lseek(cut, 0, SEEK_SET) == 0);
        CHECK_INT(try_load(cut, no_limits), -ERR_INVALID);
        close(cut);
    }
    CHECK(write(fd, "x", 1) == 1 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK_INT(try_load(fd, no_limits), -ERR_INVALID);
}

/* A manifest with one path, which is then overwritten by another of the same length. */
static int with_path(const char *path)
{
    struct sync_manifest m;
    char text[8];
    int fd;

    CHECK_OK(sync_manifest_init(&m, &no_limits, &e), e);
    memset(text, 'x', sizeof text);
    text[strlen(path)] = '\0';
    add(&m, text, KIND_LINK);
    fd = finished(&m);
    CHECK(pwrite(fd, path, strlen(path), 48 + 48) == (ssize_t)strlen(path));
    return try_load(fd, no_limits);
}

TEST(only_paths_in_their_one_form)
{
    CHECK_INT(with_path("a/b"), 0);
    CHECK_INT(with_path("../a"), -ERR_DENIED);
    CHECK_INT(with_path("/a"), -ERR_INVALID);
    CHECK_INT(with_path("a/"), -ERR_INVALID);
    CHECK_INT(with_path("a//b"), -ERR_INVALID);
    CHECK_INT(with_path("./a"), -ERR_INVALID);
}

TEST(paths_out_of_order_are_refused)
{
    struct sync_manifest m;
    int fd;

    CHECK_OK(sync_manifest_init(&m, &no_limits, &e), e);
    add(&m, "a", KIND_LINK);
    add(&m, "b", KIND_LINK);
    fd = finished(&m);
    CHECK(pwrite(fd, "b", 1, 48 + 48) == 1);
    CHECK_INT(try_load(fd, no_limits), -ERR_INVALID);
}

TEST(limits_hold)
{
    struct sync_manifest m;
    struct sync_entry *x;

    CHECK_INT(try_load(sample(), (struct sync_limits){ .entries = 2 }), -ERR_TOO_BIG);
    CHECK_INT(try_load(sample(), (struct sync_limits){ .depth = 1 }), -ERR_TOO_BIG);
    CHECK_INT(try_load(sample(), (struct sync_limits){ .path = 5 }), -ERR_TOO_BIG);
    CHECK_OK(load(sample(), &(struct sync_limits){ .entries = 3 }, &m), e);
    CHECK_INT(sync_manifest_add(&m, STR("more"), &x, &e), -ERR_TOO_BIG);
    CHECK_OK(sync_manifest_add(&m, STR("b"), &x, &e), e);
    sync_manifest_done(&m);
}

TEST(many_names_and_their_order)
{
    struct sync_manifest m;
    AUTO_FREE struct sync_entry **list = NULL;
    char path[32];

    CHECK_OK(sync_manifest_init(&m, &no_limits, &e), e);
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "d%d/f", i);
        add(&m, path, KIND_LINK);
        *strchr(path, '/') = '\0';
        add(&m, path, KIND_DIR);
    }
    CHECK_INT(m.count, 10000);
    CHECK_OK(sync_manifest_sorted(&m, &list, &e), e);
    for (int i = 1; i < 10000; i++)
        CHECK(strcmp(list[i - 1]->path.p, list[i]->path.p) < 0);
    CHECK(!list[10000]);
    sync_manifest_done(&m);
}

TEST(fresh_times_tell_nothing)
{
    int64_t now = 1000 * NS_PER_S;
    struct stat st = { .st_ino = 5, .st_ctim = { .tv_sec = 1000 - IDENTITY_SETTLE_S } };
    struct sync_identity old = sync_identity_of(&st, now), fresh;

    CHECK(sync_identity_eq(&old, &old));
    st.st_ctim.tv_nsec = 1;
    fresh = sync_identity_of(&st, now);
    CHECK(!sync_identity_eq(&fresh, &fresh));
}
