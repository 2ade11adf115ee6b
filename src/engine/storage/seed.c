/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/seed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "engine/storage/subvolume.h"

enum {
    STEP = 1024, /* distance of two seeds: small ones are made quickly */
    NAME_MAX_ = 24,
};

static const char seeds_name[] = "seeds", unfinished[] = ".new", mark_new[] = ".mark";

static int open_seeds(int storage, struct err *e)
{
    int fd;

    if (mkdirat(storage, seeds_name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating %s/", seeds_name);
    fd = openat(storage, seeds_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "opening %s/", seeds_name) : fd;
}

struct seed_search {
    uint64_t fitting; /* the lowest sufficient seed; 0: none */
    uint64_t highest; /* 0: no seed */
};

static int find_seeds(int seeds, uint64_t number, struct seed_search *ret, struct err *e)
{
    int fd = openat(seeds, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *d;
    uint64_t n;

    *ret = (struct seed_search){ 0 };
    if (!dir) {
        drop_fd(&fd);
        return err_sys(e, "reading %s/", seeds_name);
    }
    while ((d = readdir(dir))) {
        if (!str_to_u64(str_from(d->d_name), &n))
            continue;
        if (n > ret->highest)
            ret->highest = n;
        if (n >= number && (!ret->fitting || n < ret->fitting))
            ret->fitting = n;
    }
    closedir(dir);
    return 0;
}

static void name_seed(uint64_t number, char ret[static NAME_MAX_])
{
    snprintf(ret, NAME_MAX_, "%llu", (unsigned long long)number);
}

static int copy_seed(int seeds, uint64_t number, int parent, const char *name, struct err *e)
{
    AUTO_CLOSE int seed = -1;
    char from[NAME_MAX_];

    name_seed(number, from);
    seed = openat(seeds, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (seed < 0)
        return err_sys(e, "opening %s/%s", seeds_name, from);
    return subvolume_snapshot(seed, parent, name, e);
}

/* Uses up numbers until `number` is reached, at most `most`. */
static int use_up_numbers(int dir, uint64_t number, uint64_t most, struct err *e)
{
    uint64_t last = 0;

    for (uint64_t i = 0; last < number && i < most; i++) {
        AUTO_CLOSE int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
            return err_sys(e, "allocating inode numbers");
        last = st.st_ino;
    }
    return 0;
}

/* Replaces the mark of the seed that it was copied from by a higher one. */
static int grow_seed(int seeds, uint64_t number, uint64_t most, uint64_t *ret, struct err *e)
{
    AUTO_CLOSE int dir = openat(seeds, unfinished, O_RDONLY | O_DIRECTORY | O_CLOEXEC), mark = -1;
    char name[NAME_MAX_];
    struct stat st;
    int r = dir < 0 ? err_sys(e, "opening a new seed") : use_up_numbers(dir, number, most, e);

    if (r < 0)
        return r;
    mark = openat(dir, mark_new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (mark < 0 || fstat(mark, &st) < 0 || renameat(dir, mark_new, dir, SEED_MARK) < 0)
        return err_sys(e, "marking a seed");
    *ret = st.st_ino;
    name_seed(*ret, name);
    return renameat(seeds, unfinished, seeds, name) < 0 ? err_sys(e, "naming a seed") : 0;
}

/* Removes an unfinished seed; without the right to remove subvolumes, like a directory. */
static void drop_unfinished(int seeds)
{
    AUTO_CLOSE int dir = -1;

    if (subvolume_remove(seeds, unfinished, NULL) >= 0)
        return;
    dir = openat(seeds, unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return;
    unlinkat(dir, mark_new, 0);
    unlinkat(dir, SEED_MARK, 0);
    unlinkat(seeds, unfinished, AT_REMOVEDIR);
}

/* Makes a seed under a lock: an unfinished one then belongs to a process that died. */
static int make_seed(int seeds, uint64_t number, uint64_t most, uint64_t *ret, struct err *e)
{
    AUTO_CLOSE int lock = openat(seeds, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct seed_search f;
    int r;

    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return err_sys(e, "locking %s/", seeds_name);
    r = find_seeds(seeds, number, &f, e);
    if (r < 0 || f.fitting) {
        *ret = f.fitting;
        return r;
    }
    drop_unfinished(seeds);
    r = f.highest ? copy_seed(seeds, f.highest, seeds, unfinished, e)
                  : subvolume_make(seeds, unfinished, e);
    if (r >= 0 && fchmodat(seeds, unfinished, 0700, 0) < 0)
        r = err_sys(e, "restricting access to a new seed");
    if (r >= 0)
        r = grow_seed(seeds, (number / STEP + 1) * STEP, most, ret, e);
    if (r < 0)
        drop_unfinished(seeds);
    return r;
}

/* Finds or makes a seed: returns the descriptor of seeds/; *ret is the seed's number. */
static int take_seed(int storage, uint64_t number, uint64_t most, uint64_t *ret, struct err *e)
{
    AUTO_CLOSE int seeds = open_seeds(storage, e);
    struct seed_search f;
    int r = seeds < 0 ? seeds : find_seeds(seeds, number, &f, e);

    if (r < 0)
        return r;
    *ret = f.fitting;
    if (!f.fitting)
        r = make_seed(seeds, number, most, ret, e);
    if (r >= 0 && *ret < number)
        r = err_set(e, ERR_BUSY,
                    "inode numbers above %llu are not prepared yet (reached %llu): try again",
                    (unsigned long long)number, (unsigned long long)*ret);
    return r < 0 ? r : take_fd(&seeds);
}

int seed_prepare(int storage, uint64_t number, uint64_t most, struct err *e)
{
    uint64_t seed;
    AUTO_CLOSE int seeds = take_seed(storage, number, most, &seed, e);

    return seeds < 0 ? seeds : 0;
}

int seed_plant(int storage, uint64_t number, uint64_t most, int boxes, const char *name,
               struct err *e)
{
    uint64_t seed;
    AUTO_CLOSE int seeds = take_seed(storage, number, most, &seed, e);

    return seeds < 0 ? seeds : copy_seed(seeds, seed, boxes, name, e);
}
