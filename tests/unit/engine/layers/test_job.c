/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/job.h"

#include <stdio.h>
#include <string.h>

#include "harness/tap.h"

static struct err e;

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(names_of_layers)
{
    static const char *const good[] = { "sha256-" HEX, "lay_0123456789abcdefghjk" };
    static const char *const bad[] = {
        "",
        "sha256-",
        ("sha256-" HEX "0"),
        "sha256-ABCDEF6789abcdef0123456789abcdef0123456789abcdef01234567",
        ("sha512-" HEX),
        "lay_",
        "lay_../../../../../../..",
        "sbx_0123456789abcdefghjk",
        "."
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(layer_name_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!layer_name_valid(bad[i]));
}

TEST(jobs_are_checked_completely)
{
    struct layers_job good, j;

    layers_job_fill(&good, LAYERS_REMOVE, "lay_0123456789abcdefghjk");
    CHECK_OK(layers_job_check(&good, sizeof good, 0, &e), e);
    CHECK_INT(layers_job_check(&good, sizeof good - 1, 0, &e), -ERR_INVALID);
    CHECK_INT(layers_job_check(&good, sizeof good, 1, &e), -ERR_INVALID);
    j = good;
    j.magic++;
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_INVALID);
    j = good;
    j.kind = 0;
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_UNSUPPORTED);
    j.kind = LAYERS_KIND_COUNT_;
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_UNSUPPORTED);
    j = good;
    memset(j.name, 'a', sizeof j.name);
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_INVALID);
    layers_job_fill(&j, LAYERS_SWEEP, "lay_0123456789abcdefghjk");
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_INVALID);
    j = good;
    j.flags = LAYERS_IDLE;
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_UNSUPPORTED);
    j.kind = LAYERS_DIGEST;
    CHECK_OK(layers_job_check(&j, sizeof j, 0, &e), e);
}

/* Of a diff: a layer, or a layer that is to come of a box, in place of a descriptor. */
TEST(what_is_stored_needs_no_descriptor)
{
    struct layers_job j;

    layers_job_fill(&j, LAYERS_DIFF, NULL);
    CHECK_OK(layers_job_check(&j, sizeof j, 2, &e), e);
    CHECK_INT(layers_job_check(&j, sizeof j, 1, &e), -ERR_INVALID);
    snprintf(j.box, sizeof j.box, "sbx_0123456789abcdefghjk");
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    layers_job_fill(&j, LAYERS_COMPARE, "lay_0123456789abcdefghjk");
    CHECK_OK(layers_job_check(&j, sizeof j, 1, &e), e);
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_INVALID);
    snprintf(j.box, sizeof j.box, "sbx_0123456789abcdefghjk");
    CHECK_OK(layers_job_check(&j, sizeof j, 1, &e), e);
    snprintf(j.name, sizeof j.name, "../x");
    CHECK_INT(layers_job_check(&j, sizeof j, 1, &e), -ERR_INVALID);
}

/* Only what is unpacked is a part of a file. */
TEST(parts_of_files_are_checked)
{
    struct layers_job good, j;

    layers_job_fill(&good, LAYERS_UNPACK, "sha256-" HEX);
    good.at = 512;
    good.size = 1 << 20;
    snprintf(good.packed, sizeof good.packed, "sha256-" HEX);
    CHECK_OK(layers_job_check(&good, sizeof good, 2, &e), e);
    j = good;
    j.size = (uint64_t)INT64_MAX - 511;
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    j.at = UINT64_MAX;
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    j = good;
    snprintf(j.packed, sizeof j.packed, "lay_0123456789abcdefghjk");
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    memset(j.packed, 'a', sizeof j.packed);
    CHECK_INT(layers_job_check(&j, sizeof j, 2, &e), -ERR_INVALID);
    layers_job_fill(&j, LAYERS_DIGEST, "sha256-" HEX);
    j.size = 1;
    CHECK_INT(layers_job_check(&j, sizeof j, 0, &e), -ERR_INVALID);
    layers_job_fill(&j, LAYERS_SIFT, NULL);
    CHECK_OK(layers_job_check(&j, sizeof j, 2, &e), e);
    CHECK_INT(layers_job_check(&j, sizeof j, 1, &e), -ERR_INVALID);
}

TEST(what_is_said_is_checked)
{
    struct layers_said said;

    layers_said_fill(&said, LAYERS_DONE);
    CHECK_OK(layers_said_check(&said, sizeof said, &e), e);
    CHECK_INT(layers_said_check(&said, sizeof said - 1, &e), -ERR_UPSTREAM);
    said.r = 1;
    CHECK_INT(layers_said_check(&said, sizeof said, &e), -ERR_UPSTREAM);
    said.r = -1000;
    CHECK_INT(layers_said_check(&said, sizeof said, &e), -ERR_UPSTREAM);
    layers_said_fill(&said, LAYERS_DONE);
    memset(said.text, 'x', sizeof said.text);
    CHECK_INT(layers_said_check(&said, sizeof said, &e), -ERR_UPSTREAM);
}
