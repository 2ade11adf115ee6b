/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/tap.h"

static struct err e;
static char path[64];
static pid_t owner;

static void remove_storage(void)
{
    if (getpid() == owner && chdir(path) == 0) {
        (void)rmdir(STORAGE_BOXES);
        (void)rmdir(path);
    }
}

static int open_storage(void)
{
    int fd;

    snprintf(path, sizeof path, "/tmp/test-uppers-XXXXXX");
    CHECK(mkdtemp(path) != NULL);
    owner = getpid();
    atexit(remove_storage);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST(drivers_have_names)
{
    static const char *const names[] = { "memory", "plain", "reflink", "btrfs" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct driver *d = driver_find(names[i]);

        CHECK(d != NULL);
        CHECK(strcmp(d->name, names[i]) == 0);
        CHECK(d->on_disk == (i > 0) && d->on_disk == (d->make != NULL));
    }
    CHECK(!driver_find("auto") && !driver_find("") && !driver_find("zfs"));
}

TEST(memory_works_everywhere)
{
    struct driver_choice c;
    int storage = open_storage();

    CHECK_OK(driver_choose("memory", storage, &c, &e), e);
    CHECK(strcmp(c.driver->name, "memory") == 0);
    CHECK(c.limited);
    CHECK(faccessat(storage, STORAGE_BOXES, F_OK, 0) < 0);
}

/* Whatever /tmp is on. */
TEST(auto_takes_what_works_and_leaves_nothing)
{
    struct driver_choice c;
    int storage = open_storage();

    CHECK_OK(driver_choose("auto", storage, &c, &e), e);
    CHECK(c.why[0] && strcmp(c.driver->name, "plain") != 0);
    CHECK(!c.driver->on_disk || rmdir(path) < 0);
    CHECK(!c.driver->on_disk || unlinkat(storage, STORAGE_BOXES, AT_REMOVEDIR) == 0); /* empty */
}

TEST(what_cannot_be_is_refused)
{
    struct driver_choice c;
    int storage = open_storage(), proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (probe_reflink(storage, NULL) < 0) {
        CHECK_INT(driver_choose("btrfs", storage, &c, &e), -ERR_UNSUPPORTED);
        CHECK(strstr(e.msg, "storage.driver") && strstr(e.msg, "btrfs"));
        CHECK_INT(driver_choose("reflink", storage, &c, &e), -ERR_UNSUPPORTED);
        CHECK(strstr(e.msg, "reflink"));
    }
    CHECK(driver_choose("plain", proc, &c, &e) < 0);
}
