/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/config.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/tap.h"
#include "unit/domain/config/yaml_files.h"
#include "unit/domain/profile/doc_rows.h"

static struct arena arena = ARENA_INIT(8 << 20);

TEST(a_named_file)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;
    struct err e;

    yaml_files_make(&f);
    yaml_files_add(&f, "listen: '[::1]:7700'\nsocket: {mode: '0660', group: staff}\n"
                       "limits: {body_bytes: 1M}\nhub: {timeout: 250ms}\n"
                       "hosts: [{name: b1, address: me@b1, labels: {zone: a}}]\n");
    CHECK_OK(config_load(f.paths[0], &c, &arena, &e), e);
    CHECK_STR(str_from(c.address.ip), "::1");
    CHECK_INT(c.address.port, 7700);
    CHECK_INT(c.socket_mode, 0660);
    CHECK_INT(c.limits.body_bytes, 1 << 20);
    CHECK_INT(c.hub.timeout, 250 * NS_PER_MS);
    CHECK_INT(c.hosts.n, 1);
    CHECK_STR(str_from(((struct config_host *)c.hosts.p)[0].labels.p[0].value), "a");
}

TEST(nothing_has_to_be_configured)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;
    struct err e;

    yaml_files_make(&f);
    CHECK_OK(config_load(yaml_files_add(&f, ""), &c, &arena, &e), e);
    CHECK(c.listen == NULL && c.hub.url == NULL);
    CHECK_INT(c.socket_mode, 0600);
    CHECK_INT(c.workspaces.roots.n, 0);
    CHECK(c.state[0] == '/' && c.socket.path[0] == '/');
    CHECK(c.pool.enabled);
}

TEST(a_daemon_serves_tenants_if_others_can_reach_it)
{
    static const struct {
        const char *text;
        bool tenants;
    } cases[] = {
        { "", false },
        { "socket: {mode: '0600'}", false },
        { "socket: {mode: '0660'}", true },
        { "socket: {mode: '0606'}", true },
        { "listen: '127.0.0.1:7700'", true },
        { "domain: {name: example.org, listen: '127.0.0.1:7701'}", true },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(yaml_files_done) struct yaml_files f = { 0 };
        struct config c;
        struct err e;

        yaml_files_make(&f);
        CHECK_OK(config_load(yaml_files_add(&f, cases[i].text), &c, &arena, &e), e);
        CHECK_INT(config_serves_tenants(&c), cases[i].tenants);
    }
}

TEST(a_file_larger_than_allowed)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;
    struct err e;

    yaml_files_make(&f);
    CHECK(truncate(yaml_files_add(&f, "#"), CONFIG_BYTES_MAX + 1) == 0);
    CHECK_INT(config_load(f.paths[0], &c, &arena, &e), -ERR_TOO_BIG);
}

TEST(the_page_says_what_the_table_says)
{
    check_doc_rows("docs/configuration.md", config_fields, config_field_count);
}
