/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/sys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "harness/tap.h"
#include "unit/lib/tar/scratch.h"

enum { OPENS = 20000 };

static struct scratch s;
static atomic_bool over;

static void *rename_all_the_time(void *arg)
{
    while (!over) {
        CHECK(renameat(s.dir, "a", s.dir, "b") == 0);
        CHECK(renameat(s.dir, "b", s.dir, "a") == 0);
    }
    return arg;
}

TEST(an_open_below_a_root_survives_renames_elsewhere)
{
    pthread_t renames;
    int failed = 0;

    s = scratch_make();
    CHECK(mkdirat(s.dir, "a", 0700) == 0 && mkdirat(s.dir, "in", 0700) == 0 &&
          mkdirat(s.dir, "in/deep", 0700) == 0);
    CHECK(pthread_create(&renames, NULL, rename_all_the_time, NULL) == 0);
    for (int i = 0; i < OPENS; i++) {
        int fd = sys_openat2(s.dir, "in/deep/../deep", O_PATH | O_DIRECTORY, 0, RESOLVE_IN_ROOT);

        failed += fd < 0;
        close(fd);
    }
    over = true;
    pthread_join(renames, NULL);
    CHECK_INT(failed, 0);
}
