/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/sysmacros.h>

#include "engine/layers/view.h"
#include "scratch.h"

static struct err e;

#define BASE "lay_0000000000000000000a"
#define ONE  "lay_0000000000000000000b"
#define TWO  "lay_0000000000000000000c"

/* "dir/", "file=content", "-removed", "dir!" for an opaque one. */
static void fill(int dir, const char *const *entries)
{
    for (; *entries; entries++) {
        const char *x = *entries;
        size_t n = strcspn(x, "=!");
        char name[64];
        int fd;

        snprintf(name, sizeof name, "%.*s", (int)n, x);
        if (x[0] == '-') {
            CHECK_INT(mknodat(dir, x + 1, S_IFCHR, makedev(0, 0)), 0);
        } else if (x[n] == '=') {
            fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
            CHECK(fd >= 0 && write(fd, x + n, strlen(x + n)) == (ssize_t)strlen(x + n));
            close(fd);
        } else {
            CHECK_INT(mkdirat(dir, name, 0755), 0);
            fd = openat(dir, name, O_RDONLY | O_DIRECTORY);
            if (x[n] == '!')
                CHECK_OK(view_set_opaque(fd, &e), e);
            close(fd);
        }
    }
}

static void make_layer(int storage, const char *name, const char *const *entries)
{
    char path[64];
    int fd;

    (void)mkdirat(storage, "layers", 0700);
    snprintf(path, sizeof path, "layers/%s", name);
    CHECK_INT(mkdirat(storage, path, 0700), 0);
    snprintf(path, sizeof path, "layers/%s/fs", name);
    CHECK_INT(mkdirat(storage, path, 0755), 0);
    fd = openat(storage, path, O_RDONLY | O_DIRECTORY);
    fill(fd, entries);
    close(fd);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Records, sorted: the change and the path of each. */
static void expect(int storage, const struct layers_job *job, const char *const *now,
                   const char *want)
{
    static char text[4096], got[4096];
    char *lines[64];
    struct layers_said said;
    size_t n = 0, at = 0;
    ssize_t size;
    int fds[2];

    CHECK_INT(mkdirat(storage, "now", 0755), 0);
    fds[0] = openat(storage, "now", O_RDONLY | O_DIRECTORY);
    fds[1] = openat(storage, "records", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fds[0] >= 0 && fds[1] >= 0);
    fill(fds[0], now);
    said = scratch_do(storage, job, fds, 2);
    CHECK_OK(said.r, said.err);
    size = pread(fds[1], text, sizeof text - 1, 0);
    for (ssize_t i = 0; i < size; i += (ssize_t)strlen(text + i) + 1)
        lines[n++] = text + i;
    qsort(lines, n, sizeof *lines, compare_names);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%c%s ", lines[i][0], lines[i] + 2);
    CHECK_STR(str_from(at ? got : ""), want);
}

static void put(char to[][LAYER_NAME_MAX], uint64_t *n, const char *name)
{
    snprintf(to[(*n)++], LAYER_NAME_MAX, "%s", name);
}

TEST(what_differs_from_another_stack_is_named)
{
    static const char *const base[] = { "same=1",   "dir",    "dir/in=1", "tree",
                                        "tree/a=1", "both=1", NULL };
    static const char *const one[] = { "only=1", "changed=1", "-both", NULL };
    static const char *const two[] = { "changed=2", "other=1", "both=1", "tree!", NULL };
    static const char *const now[] = { "new=1", "-same", "dir", "-dir/in", NULL };
    int storage = scratch_storage();
    struct layers_job job;

    make_layer(storage, BASE, base);
    make_layer(storage, ONE, one);
    make_layer(storage, TWO, two);
    layers_job_fill(&job, LAYERS_COMPARE, NULL);
    put(job.below, &job.n_below, ONE);
    put(job.below, &job.n_below, BASE);
    put(job.against, &job.n_against, TWO);
    put(job.against, &job.n_against, BASE);
    expect(storage, &job, now, "Anew Aonly Atree/a Cchanged Dboth Ddir/in Dother Dsame ");
}

TEST(the_same_stack_does_not_differ)
{
    static const char *const base[] = { "a=1", "d", "d/b=1", NULL };
    static const char *const now[] = { "a=1", "d", NULL }; /* written again */
    int storage = scratch_storage();
    struct layers_job job;

    make_layer(storage, BASE, base);
    layers_job_fill(&job, LAYERS_COMPARE, NULL);
    put(job.below, &job.n_below, BASE);
    put(job.against, &job.n_against, BASE);
    expect(storage, &job, now, "");
}

TEST(what_each_has_of_its_own_is_not_told)
{
    static const char *const base[] = { "etc", "etc/hosts=1", "etc/hostname=1", "etc/kept=1",
                                        NULL };
    static const char *const now[] = { "etc",           "etc/hosts=2",      "-etc/hostname",
                                       "etc/kept=2",    "etc/machine-id=1", "etc/resolv.conf=1",
                                       "etc/hosts.d=1", "hosts=1",          NULL };
    struct layers_job job;
    int storage = scratch_storage();

    make_layer(storage, BASE, base);
    layers_job_fill(&job, LAYERS_COMPARE, NULL);
    put(job.below, &job.n_below, BASE);
    put(job.against, &job.n_against, BASE);
    expect(storage, &job, now, "Aetc/hosts.d Ahosts Cetc/kept ");
}

TEST(a_layer_that_is_not_there_is_an_error)
{
    int storage = scratch_storage(), fds[2];
    struct layers_job job;

    CHECK_INT(mkdirat(storage, "now", 0755), 0);
    fds[0] = openat(storage, "now", O_RDONLY | O_DIRECTORY);
    fds[1] = openat(storage, "records", O_RDWR | O_CREAT, 0600);
    layers_job_fill(&job, LAYERS_COMPARE, NULL);
    put(job.against, &job.n_against, BASE);
    CHECK_INT(scratch_do(storage, &job, fds, 2).r, -ERR_NOT_FOUND);
}
