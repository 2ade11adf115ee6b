/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is: an archive of images, of which what is said passes the
 * other side's check and hashes to what it says; or what somebody says of an archive of that many
 * pages, of which nothing that passes is outside of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct archive_parts parts;

static void must(bool good)
{
    if (!good)
        abort();
}

static void on_progress(void *ctx, uint64_t bytes)
{
    must(bytes <= *(const size_t *)ctx);
}

static void check_digest(struct str archive, const struct part_record *p)
{
    AUTO(buf_done) struct buf hex = BUF_INIT(64);
    unsigned char digest[CRYPTO_SHA256_SIZE];

    crypto_sha256((struct str){ archive.p + p->at, p->size }, digest);
    crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex);
    must(strcmp(p->digest + 7, hex.p) == 0);
}

static void try_archive(struct str archive)
{
    AUTO_CLOSE int fd = memfd_create("archive", MFD_CLOEXEC);
    struct err e;

    must(fd >= 0 && write(fd, archive.p, archive.n) == (ssize_t)archive.n);
    if (parts_find(fd, on_progress, &archive.n, &parts, &e) < 0)
        return;
    must(parts_check(&parts, sizeof parts, archive.n, &e) >= 0);
    for (size_t i = 0; i < parts.n; i++)
        check_digest(archive, &parts.p[i]);
}

static void try_said(struct str said, uint64_t pages)
{
    struct err e;

    memset(&parts, 0, sizeof parts);
    memcpy(&parts, said.p, said.n < sizeof parts ? said.n : sizeof parts);
    if (parts_check(&parts, sizeof parts, pages * 4096, &e) < 0)
        return;
    must(parts.n <= PARTS_MAX);
    for (size_t i = 0; i < parts.n; i++) {
        const struct part_record *p = &parts.p[i];

        must(strlen(p->name) < sizeof p->name && strlen(p->digest) == 71);
        must(p->at <= pages * 4096 && p->size <= pages * 4096 - p->at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest;

    if (size == 0)
        return 0;
    rest = (struct str){ (const char *)data + 1, size - 1 };
    if (data[0] == 'a')
        try_archive(rest);
    else
        try_said(rest, data[0]);
    return 0;
}
