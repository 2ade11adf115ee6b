/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/config.h"
#include "harness/tap.h"
#include "unit/domain/config/yaml_files.h"

static struct arena arena = ARENA_INIT(8 << 20);
static struct err e;

static struct config load(const char *path)
{
    struct config c;

    CHECK_OK(config_load(path, &c, &arena, &e), e);
    return c;
}

/* Written and read again it is the same. */
static void check_written(struct yaml_files *f, const struct config *c, enum config_format format)
{
    AUTO(buf_done) struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);
    struct config again;

    CHECK_OK(config_write(c, format, &one, &e), e);
    again = load(yaml_files_add(f, one.p));
    CHECK_OK(config_write(&again, format, &two, &e), e);
    CHECK_STR(buf_str(&two), one.p);
}

TEST(both_formats_can_be_read_again)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;

    yaml_files_make(&f);
    c = load(yaml_files_add(&f, "listen: 127.0.0.1:1\nhub: {url: 'http://h/#x', timeout: 1500ms}\n"
                                "hosts: [{name: a, address: 'u@h', labels: {k: 'a: \"b\" # c'}}]\n"
                                "workspaces: {roots: ['/srv/a b', /srv/ü]}\n"));
    check_written(&f, &c, CONFIG_YAML);
    check_written(&f, &c, CONFIG_JSON);
}

TEST(yaml_is_commented)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct config c;

    yaml_files_make(&f);
    c = load(yaml_files_add(&f, ""));
    CHECK_OK(config_write(&c, CONFIG_YAML, &text, &e), e);
    CHECK(strstr(text.p, "including prepared ones; a sixteenth is reserved for "
                         "administrators on the unix socket.\n  sandboxes_max: 1000\n"));
    CHECK(strstr(text.p, "\n#user:\n"));
}

TEST(a_full_buffer_stays_as_it_was)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    AUTO(buf_done) struct buf text = BUF_INIT(50);
    struct config c;

    yaml_files_make(&f);
    c = load(yaml_files_add(&f, ""));
    buf_addf(&text, "before");
    CHECK_INT(config_write(&c, CONFIG_YAML, &text, &e), -ERR_TOO_BIG);
    CHECK_INT(config_write(&c, CONFIG_JSON, &text, &e), -ERR_TOO_BIG);
    CHECK_STR(buf_str(&text), "before");
}
