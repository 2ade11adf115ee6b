/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sip.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

/* The key 00 01 … 0f of the reference implementation, whose results for the inputs "", 00, 00 01, …
 * follow. */
static const struct sip_key key = { { UINT64_C(0x0706050403020100),
                                      UINT64_C(0x0f0e0d0c0b0a0908) } };
static const struct {
    size_t n;
    uint64_t hash;
} vectors[] = {
    { 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
    { 2, UINT64_C(0x0d6c8009d9a94f5a) },  { 7, UINT64_C(0xab0200f58b01d137) },
    { 8, UINT64_C(0x93f5f5799a932462) },  { 15, UINT64_C(0xa129ca6149be45e5) },
    { 63, UINT64_C(0x958a324ceb064572) },
};

static struct str counting(size_t n)
{
    static char bytes[64];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    return (struct str){ bytes, n };
}

TEST(the_reference_values)
{
    for (size_t i = 0; i < COUNT_OF(vectors); i++)
        CHECK(sip_str(&key, counting(vectors[i].n)) == vectors[i].hash);
}

TEST(pieces_do_not_matter)
{
    struct str all = counting(63);

    for (size_t cut = 0; cut <= all.n; cut++) {
        struct sip h, whole;

        sip_init(&h, &key);
        sip_add(&h, (struct str){ all.p, cut });
        (void)sip_end(&h);
        sip_add(&h, (struct str){ all.p + cut, all.n - cut });
        sip_init(&whole, &key);
        sip_add(&whole, all);
        CHECK(sip_eq(&h, &whole));
        CHECK(sip_end(&h) == sip_str(&key, all));
    }
}

TEST(a_file)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    struct str all = counting(40);
    struct err e;
    uint64_t hash;

    CHECK(write(fd, all.p, all.n) == (ssize_t)all.n && lseek(fd, 0, SEEK_SET) == 0);
    CHECK_OK(sip_fd(&key, fd, &hash, &e), e);
    CHECK(hash == sip_str(&key, all));
    CHECK_INT(sip_fd(&key, -1, &hash, &e), -ERR_SYS);
}
