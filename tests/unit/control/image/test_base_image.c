/* SPDX-License-Identifier: Apache-2.0 */
#include "control/image/base_image.h"

#include "control/image/images.h"
#include "harness/tap.h"

static struct arena arena = ARENA_INIT(4 << 20);
static struct err e;

TEST(how_programs_are_run_is_written_and_read_again)
{
    AUTO(buf_done) struct buf text = BUF_INIT(BASE_CONFIG_MAX);
    struct base_image b = { .ref = "web:1" };
    const struct json *again;
    struct backend_image box;

    CHECK_OK(
        base_image_read_config(STR("{\"User\":\"7\",\"WorkingDir\":\"/srv\",\"Env\":[\"A=b\"]}"),
                               &arena, &b.config, &e),
        e);
    CHECK_OK(base_image_write_config(&b, &text, &e), e);
    CHECK_OK(base_image_read_config(buf_str(&text), &arena, &again, &e), e);
    b.config = again;
    CHECK_OK(base_image_for_box(&b, &arena, &box, &e), e);
    CHECK_STR(str_from(box.user), "7");
    CHECK_STR(str_from(box.workdir), "/srv");
    CHECK(box.env.n == 1 && strcmp(box.env.p[0], "A=b") == 0);
}

TEST(who_says_nothing_is_fine)
{
    AUTO(buf_done) struct buf text = BUF_INIT(BASE_CONFIG_MAX);
    const struct base_image none = { .ref = NULL };
    const struct json *config;

    CHECK_OK(base_image_write_config(&none, &text, &e), e);
    CHECK_INT(text.n, 0);
    CHECK_OK(base_image_read_config(buf_str(&text), &arena, &config, &e), e);
    CHECK(!config);
}

TEST(a_configuration_that_is_none_is_refused)
{
    AUTO(buf_done) struct buf large = BUF_INIT(2 * BASE_CONFIG_MAX);
    const struct json *config;

    CHECK_INT(base_image_read_config(STR("{\"User\":"), &arena, &config, &e), -ERR_INVALID);
    CHECK(buf_addf(&large, "{\"User\":\"%*d\"}", BASE_CONFIG_MAX, 7) >= 0);
    CHECK_INT(base_image_read_config(buf_str(&large), &arena, &config, &e), -ERR_TOO_BIG);
}

/* An image lists its layers from below, a sandbox or snapshot from above. */
TEST(layers_of_an_image_are_turned_around)
{
    static const char *const names[] = { "low", "mid", "top" };
    struct image im = { .layers = { names, 3 } };
    struct base_image b, copy;

    CHECK_OK(base_image_of(&im, &arena, &b, &e), e);
    CHECK_OK(base_image_copy(&b, &arena, &copy, &e), e);
    CHECK_INT(copy.layers.n, 3);
    CHECK(strcmp(copy.layers.p[0], "top") == 0 && strcmp(copy.layers.p[2], "low") == 0);
    CHECK(copy.layers.p[0] != names[2]); /* its own */
}
