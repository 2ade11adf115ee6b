/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/sources.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "harness/tap.h"
#include "unit/domain/config/yaml_files.h"

static struct arena arena = ARENA_INIT(8 << 20);
static struct err e;

static struct config load(struct sources s)
{
    struct config c = { 0 };

    CHECK_OK(sources_load(&s, &c, &arena, &e), e);
    return c;
}

static void check_fails(struct sources s, int code, const char *message)
{
    struct config c;

    CHECK_INT(sources_load(&s, &c, &arena, &e), -code);
    if (!strstr(e.msg, message))
        FAIL("says '%s', not '%s'", e.msg, message);
}

TEST(later_files_win_field_by_field)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;

    yaml_files_make(&f);
    yaml_files_add(&f, "limits: {connections: 10, requests_in_flight: 20}\n"
                       "workspaces: {roots: [/a, /b]}\nlog: {level: debug}\nlisten: 127.0.0.1:1\n");
    yaml_files_add(&f, "# nothing\n");
    yaml_files_add(&f, "limits: {connections: 11}\nworkspaces: {roots: [/c]}\nlisten: null\n"
                       "retention: {events: 2d}\n");
    c = load(yaml_files_sources(&f));
    CHECK_INT(c.limits.connections, 11);
    CHECK_INT(c.limits.requests_in_flight, 20);
    CHECK_INT(c.workspaces.roots.n, 1);
    CHECK_STR(str_from(c.workspaces.roots.p[0]), "/c");
    CHECK_INT(c.log.level, LOG_DEBUG);
    CHECK_INT(c.retention.events, 2 * 86400 * NS_PER_S);
    CHECK_INT(c.retention.sandboxes, 7 * 86400 * NS_PER_S);
    CHECK(c.listen == NULL);
}

TEST(what_does_not_go_together_is_found_across_files)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };

    yaml_files_make(&f);
    yaml_files_add(&f, "\npool: {total_max: 900}\n");
    yaml_files_add(&f, "limits: {sandboxes_max: 100}\n");
    check_fails(yaml_files_sources(&f), ERR_INVALID, "0.yaml: line 2: pool.total_max: must not");
}

TEST(of_another_daemons_file_its_own_places_do_not_count)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct sources s;
    struct config c;

    yaml_files_make(&f);
    yaml_files_add(&f, "listen: 0.0.0.0:80\nsocket: {path: /x}\nstate: /x\nuser: sandboxer\n"
                       "limits: {connections: 5}\n");
    s = yaml_files_sources(&f);
    s.files[0].foreign = true;
    c = load(s);
    CHECK(c.listen == NULL && c.user == NULL);
    CHECK(strcmp(c.socket.path, "/x") != 0 && strcmp(c.state, "/x") != 0);
    CHECK_INT(c.limits.connections, 5);
}

TEST(the_environment_wins)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct config c;

    yaml_files_make(&f);
    yaml_files_add(&f, "socket: {path: /f/s}\nstate: /f/state\nhub: {url: 'http://f/'}\n"
                       "host: a\nhosts: [{name: a, address: a}, {name: b, address: b}]\n");
    c = load(yaml_files_sources(&f));
    CHECK_STR(str_from(c.socket.path), "/f/s");
    CHECK_STR(str_from(c.host), "a");
    setenv("SANDBOXER_SOCKET", "/e/s", 1);
    setenv("SANDBOXER_STATE", "/e/state", 1);
    setenv("SANDBOXER_HUB_URL", "https://e/", 1);
    setenv("SANDBOXER_HOST", "b", 1);
    c = load(yaml_files_sources(&f));
    CHECK_STR(str_from(c.socket.path), "/e/s");
    CHECK_STR(str_from(c.state), "/e/state");
    CHECK_STR(str_from(c.hub.url), "https://e/");
    CHECK_STR(str_from(c.host), "b");
    setenv("SANDBOXER_STATE", "relative", 1);
    setenv("SANDBOXER_HOST", "", 1);
    c = load(yaml_files_sources(&f));
    CHECK_STR(str_from(c.state), "/f/state");
    CHECK_STR(str_from(c.host), "a");
}

TEST(a_bad_variable_is_named)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };

    yaml_files_make(&f);
    yaml_files_add(&f, "hub: {url: 'http://f/'}\n");
    setenv("SANDBOXER_HUB_URL", "nowhere", 1);
    check_fails(yaml_files_sources(&f), ERR_INVALID, "SANDBOXER_HUB_URL: must be an http://");
    unsetenv("SANDBOXER_HUB_URL");
    setenv("SANDBOXER_HOST", "mars", 1);
    check_fails(yaml_files_sources(&f), ERR_INVALID, "SANDBOXER_HOST: there is no host 'mars'");
    unsetenv("SANDBOXER_HOST");
    setenv("SANDBOXER_SOCKET", "x.sock", 1);
    check_fails(yaml_files_sources(&f), ERR_INVALID, "SANDBOXER_SOCKET: must be an absolute");
}

TEST(files_that_are_not_there_or_not_ours)
{
    AUTO(yaml_files_done) struct yaml_files f = { 0 };
    struct sources none = { .files = { { .path = "/nonexistent/x.yaml" } }, .n = 1 };

    yaml_files_make(&f);
    load(none);
    none.files[0].required = true;
    check_fails(none, ERR_NOT_FOUND, "/nonexistent/x.yaml: there is no such file");
    CHECK(chmod(yaml_files_add(&f, "listen: 127.0.0.1:1\n"), 0666) == 0);
    check_fails(yaml_files_sources(&f), ERR_DENIED, "0.yaml: can be written by others");
}

TEST(long_paths_leave_room_for_the_reason)
{
    char path[200];
    struct sources s = { .files = { { .path = path, .required = true } }, .n = 1 };

    memset(path, 'd', sizeof path);
    path[0] = '/';
    memcpy(path + sizeof path - 8, "/x.yaml", 8);
    check_fails(s, ERR_NOT_FOUND, "/x.yaml: there is no such file");
    memset(path, 'd', 90);
    path[90] = '\0';
    check_fails(s, ERR_NOT_FOUND, "…ddd");
}
