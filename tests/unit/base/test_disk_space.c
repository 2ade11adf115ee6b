/* SPDX-License-Identifier: Apache-2.0 */
#include "base/disk_space.h"

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "harness/tap.h"

TEST(room_is_looked_at_first_and_every_few_megabytes)
{
    static const struct {
        uint64_t at, n;
        bool looked;
    } cases[] = {
        { 0, 1, true },
        { 1, 1, false },
        { 1000000, 65536, false },
        { (4 << 20) - 1, 1, true },
        { (4 << 20) + 1, 65536, false },
        { 1, 64 << 20, true },
        { (64 << 20) - 10, 65536, true },
    };
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e;

    CHECK(fd >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (room_check(fd, UINT64_C(1) << 62, cases[i].at, cases[i].n, &e) !=
            (cases[i].looked ? -(int)ERR_TOO_BIG : 0))
            FAIL("case %zu is%s looked at", i, cases[i].looked ? " not" : "");
    CHECK_INT(room_check(fd, 1, 0, 1, &e), 0);
    CHECK_INT(room_check(fd, 1, 0, UINT64_MAX, &e), -ERR_TOO_BIG);
    CHECK_INT(room_check(fd, 0, 0, UINT64_MAX, &e), 0); /* nothing has to stay free */
    CHECK_INT(room_check(-1, 1, 0, 1, &e), -ERR_SYS);
    close(fd);
}
