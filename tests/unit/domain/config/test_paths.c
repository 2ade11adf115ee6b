/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/paths.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/tap.h"
#include "unit/domain/config/yaml_files.h"

static char out[PATH_MAX];
static struct err e;

static void become_plain(void)
{
    if (geteuid() == 0)
        CHECK(seteuid(65534) == 0);
}

/* The leak checker at the end of a test needs its rights. */
static void become_again(void)
{
    CHECK(seteuid(getuid()) == 0);
}

TEST(root_has_the_places_of_the_system)
{
    if (geteuid() != 0)
        SKIP("needs root");
    setenv("XDG_DATA_HOME", "/x", 1);
    setenv("XDG_RUNTIME_DIR", "/x", 1);
    setenv("XDG_CONFIG_HOME", "/x", 1);
    CHECK_OK(paths_state(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/var/lib/sandboxer");
    CHECK_OK(paths_socket("/s", out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/run/sandboxer/sandboxer.sock");
    CHECK_INT(paths_user_config(out, sizeof out, &e), -ERR_NOT_FOUND);
}

TEST(a_plain_user_has_his_own)
{
    become_plain();
    setenv("HOME", "/home/u", 1);
    setenv("XDG_DATA_HOME", "/data", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    setenv("XDG_CONFIG_HOME", "/config", 1);
    CHECK_OK(paths_state(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/data/sandboxer");
    CHECK_OK(paths_socket("/s", out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/run/user/1/sandboxer.sock");
    CHECK_OK(paths_user_config(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/config/sandboxer/sandboxer.yaml");
    become_again();
}

TEST(relative_variables_do_not_count)
{
    become_plain();
    setenv("HOME", "/home/u", 1);
    setenv("XDG_DATA_HOME", "data", 1);
    setenv("XDG_RUNTIME_DIR", "", 1);
    setenv("XDG_CONFIG_HOME", "./config", 1);
    CHECK_OK(paths_state(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/home/u/.local/share/sandboxer");
    CHECK_OK(paths_socket("/s", out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/s/sandboxer.sock");
    CHECK_OK(paths_user_config(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/home/u/.config/sandboxer/sandboxer.yaml");
    become_again();
}

/* "/" is the home of users that are not meant to have one; others write it at the end. */
TEST(paths_have_no_empty_parts)
{
    become_plain();
    setenv("HOME", "/", 1);
    unsetenv("XDG_DATA_HOME");
    setenv("XDG_RUNTIME_DIR", "/run/user/1/", 1);
    unsetenv("XDG_CONFIG_HOME");
    CHECK_OK(paths_state(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/.local/share/sandboxer");
    CHECK_OK(paths_socket("/s", out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/run/user/1/sandboxer.sock");
    CHECK_OK(paths_user_config(out, sizeof out, &e), e);
    CHECK_STR(str_from(out), "/.config/sandboxer/sandboxer.yaml");
    become_again();
}

TEST(no_place_at_all)
{
    become_plain();
    unsetenv("HOME");
    unsetenv("XDG_DATA_HOME");
    unsetenv("XDG_CONFIG_HOME");
    CHECK_INT(paths_state(out, sizeof out, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "SANDBOXER_STATE"));
    CHECK_INT(paths_user_config(out, sizeof out, &e), -ERR_NOT_FOUND);
    setenv("XDG_DATA_HOME", "/a-directory-with-a-name", 1);
    CHECK_INT(paths_state(out, 16, &e), -ERR_TOO_BIG);
    become_again();
}
