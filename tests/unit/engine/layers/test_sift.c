/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/parts.h"
#include "scratch.h"

static struct archive_parts parts;
static struct err e;

/* An archive of what `make` leaves in a directory that is gone at once. */
static int archive_of(const char *make)
{
    FILE *tar = tmpfile();
    char command[1024];

    CHECK(tar);
    snprintf(command, sizeof command,
             "d=$(mktemp -d) && cd $d && (%s) && tar -cf - * >&%d; r=$?; cd /; rm -rf $d; exit $r",
             make, fileno(tar));
    CHECK_INT(system(command), 0);
    return fileno(tar);
}

/* What a layer worker says of it; -ERR_x if it fails. */
static int sift(int archive)
{
    int storage = scratch_storage();
    FILE *list = tmpfile();
    struct layers_said said;
    struct layers_job job;
    struct stat st;

    CHECK(list && fstat(archive, &st) == 0);
    layers_job_fill(&job, LAYERS_SIFT, NULL);
    said = scratch_do(storage, &job, (const int[]){ archive, fileno(list) }, 2);
    CHECK(!scratch_has(storage, "layers") && !scratch_has(storage, "tmp")); /* it has no storage */
    scratch_remove(); /* a test may do this more than once */
    e = said.err;
    if (said.r < 0)
        return said.r;
    CHECK(pread(fileno(list), &parts, sizeof parts, 0) == (ssize_t)sizeof parts);
    CHECK_OK(parts_check(&parts, sizeof parts, (uint64_t)st.st_size, &e), e);
    return 0;
}

static const struct part_record *part(const char *name)
{
    for (size_t i = 0; i < parts.n; i++)
        if (strcmp(parts.p[i].name, name) == 0)
            return &parts.p[i];
    FAIL("there is no part '%s'", name);
}

static void check_part(int archive, const char *name, const char *content)
{
    const struct part_record *p = part(name);
    unsigned char digest[CRYPTO_SHA256_SIZE];
    struct buf hex = BUF_INIT(64);
    char bytes[4096];

    CHECK(p->size == strlen(content) && p->size < sizeof bytes);
    CHECK(pread(archive, bytes, p->size, (off_t)p->at) == (ssize_t)p->size);
    CHECK_STR(((struct str){ bytes, p->size }), content);
    crypto_sha256((struct str){ bytes, p->size }, digest);
    crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex);
    CHECK_STR(str_from(p->digest + 7), hex.p);
    buf_done(&hex);
}

TEST(a_layout)
{
    int archive = archive_of("mkdir -p blobs/sha256 && printf one >blobs/sha256/a && "
                             "printf '{}' >index.json && printf v >oci-layout");

    CHECK_OK(sift(archive), e);
    CHECK_INT(parts.kind, PARTS_LAYOUT);
    CHECK_INT(parts.n, 3);
    check_part(archive, "blobs/sha256/a", "one");
    check_part(archive, "index.json", "{}");
}

/* `docker save` writes a layer that comes twice once, and a link. */
TEST(what_docker_saves)
{
    int archive = archive_of("mkdir a b && printf layer >a/layer.tar && printf '[]' >manifest.json "
                             "&& ln -s ../a/layer.tar b/layer.tar && ln -s a/layer.tar top");

    CHECK_OK(sift(archive), e);
    CHECK_INT(parts.kind, PARTS_SAVED);
    CHECK_INT(parts.n, 4);
    check_part(archive, "a/layer.tar", "layer");
    check_part(archive, "b/layer.tar", "layer");
    check_part(archive, "top", "layer");
}

TEST(links_lead_nowhere_else)
{
    int archive = archive_of("mkdir a && printf x >x && printf '[]' >manifest.json && "
                             "ln -s ../../x a/out && ln -s /x a/top && ln -s a/out twice && "
                             "ln -s none dangling && ln -s self self");

    CHECK_OK(sift(archive), e);
    CHECK_INT(parts.n, 2);
}

TEST(a_root_file_system)
{
    int archive = archive_of("mkdir etc && seq 2000 >etc/f && for i in $(seq 1100); do echo >$i; "
                             "done");

    CHECK_OK(sift(archive), e);
    CHECK_INT(parts.kind, PARTS_ROOT);
    CHECK_INT(parts.n, 1);
    CHECK(!parts.p[0].name[0]);
}

TEST(too_many_files)
{
    CHECK_INT(sift(archive_of("printf '[]' >manifest.json; for i in $(seq 1100); do echo >$i; "
                              "done")),
              -ERR_TOO_BIG);
}

TEST(what_is_no_archive)
{
    FILE *f = tmpfile();
    int archive;

    CHECK(f && fputs("hello", f) > 0 && fflush(f) == 0);
    CHECK_INT(sift(fileno(f)), -ERR_INVALID);
    archive = archive_of("printf '[]' >manifest.json; head -c 100000 /dev/zero >z");
    CHECK(ftruncate(archive, 50000) == 0);
    CHECK_INT(sift(archive), -ERR_INVALID);
}

TEST(what_a_layer_worker_says_is_checked)
{
    static struct archive_parts bad;

    CHECK_OK(sift(archive_of("printf x >x && printf '[]' >manifest.json")), e);
    CHECK_INT(parts_check(&parts, sizeof parts - 1, 10240, &e), -ERR_UPSTREAM);
    CHECK_OK(parts_check(&parts, sizeof parts, 10240, &e), e);
#define BAD(change)                                                                                \
    bad = parts;                                                                                   \
    change;                                                                                        \
    CHECK_INT(parts_check(&bad, sizeof bad, 10240, &e), -ERR_UPSTREAM)
    BAD(bad.kind = 0);
    BAD(bad.kind = PARTS_KIND_END_);
    BAD(bad.kind = PARTS_ROOT);
    BAD(bad.n = PARTS_MAX + 1);
    BAD(bad.p[0].at = 10241);
    BAD(bad.p[1].size = 10241);
    BAD(bad.p[1].size = UINT64_MAX);
    BAD(bad.p[0].name[0] = '\0');
    BAD(memset(bad.p[0].name, 'x', sizeof bad.p[0].name));
    BAD(memset(bad.p[0].digest, 'a', sizeof bad.p[0].digest));
    BAD(bad.p[0].digest[10] = 'g');
    BAD(bad.p[0].digest[0] = 'S');
#undef BAD
}
