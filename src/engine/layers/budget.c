/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/budget.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/tree.h"

struct budget {
    _Atomic uint64_t bytes, entries;
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be one process's own");

int budget_make(uint64_t bytes, uint64_t entries, struct err *e)
{
    AUTO_CLOSE int fd = memfd_create("budget", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const struct budget b = { bytes, entries };

    if (fd < 0 || write(fd, &b, sizeof b) != (ssize_t)sizeof b ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return err_sys(e, "creating the budget of an image");
    return take_fd(&fd);
}

int budget_open(int fd, struct budget **ret, struct err *e)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "reading the budget of an image");
    if (st.st_size != sizeof **ret)
        return err_set(e, ERR_INVALID, "invalid budget of an image");
    p = mmap(NULL, sizeof **ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(e, "mapping the budget of an image");
    *ret = p;
    return 0;
}

static bool take_from_budget(_Atomic uint64_t *left, uint64_t n)
{
    uint64_t was = atomic_load(left);

    while (n <= was)
        if (atomic_compare_exchange_weak(left, &was, was - n))
            return true;
    return false;
}

int budget_take(struct budget *b, uint64_t bytes, uint64_t entries, struct err *e)
{
    if (!take_from_budget(&b->bytes, bytes))
        return err_set(e, ERR_TOO_BIG, "the image is larger than images.max_bytes allows");
    if (!take_from_budget(&b->entries, entries))
        return err_set(e, ERR_TOO_BIG, "the image has more than %llu files",
                       (unsigned long long)TREE_ENTRIES_DEFAULT);
    return 0;
}
