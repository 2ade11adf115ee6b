/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/connect.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct daemon_address place;
static struct err e;

static void clear_environment(void)
{
    unsetenv("SANDBOXER_URL");
    unsetenv("SANDBOXER_SOCKET");
    unsetenv("SANDBOXER_TOKEN");
    unsetenv("XDG_RUNTIME_DIR");
}

TEST(place_of_a_server)
{
    clear_environment();
    CHECK_OK(place_find("http://127.0.0.1:7700", &place, &e), e);
    CHECK(place.tcp && !place.may_start);
    CHECK_STR(str_from(place.host), "127.0.0.1");
    CHECK_STR(str_from(place.port), "7700");
    CHECK_STR(str_from(place.authority), "127.0.0.1:7700");
    CHECK_OK(place_find("http://[::1]:80/", &place, &e), e);
    CHECK_STR(str_from(place.host), "::1");
    CHECK_STR(str_from(place.authority), "[::1]:80");
    CHECK_OK(place_find("http://host", &place, &e), e);
    CHECK_STR(str_from(place.port), "80");
    CHECK_OK(place_find("unix:/a/b", &place, &e), e);
    CHECK(!place.tcp && !place.may_start && !place.ours);
    CHECK_STR(str_from(place.path), "/a/b");
}

TEST(places_that_are_none)
{
    static const char *const bad[] = { "",         "host:80",        "http://",      "http://a b",
                                       "unix:rel", "http://u@h:80",  "http://h:x",   "http://h/p",
                                       "ftp://h",  "http://h:99999", "http://h:80\n" };

    clear_environment();
    for (size_t i = 1; i < COUNT_OF(bad); i++)
        if (place_find(bad[i], &place, &e) >= 0)
            FAIL("'%s' is taken", bad[i]);
    CHECK(place_find("https://h", &place, &e) == -ERR_UNSUPPORTED);
}

TEST(place_from_the_environment)
{
    clear_environment();
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    CHECK_OK(place_find(NULL, &place, &e), e);
    CHECK(place.ours && place.may_start);
    CHECK_STR(str_from(place.path),
              geteuid() == 0 ? "/run/sandboxer/sandboxer.sock" : "/run/user/7/sandboxer.sock");
    setenv("SANDBOXER_SOCKET", "/x/y.sock", 1);
    CHECK_OK(place_find(NULL, &place, &e), e);
    CHECK(!place.ours && place.may_start);
    CHECK_STR(str_from(place.path), "/x/y.sock");
    setenv("SANDBOXER_URL", "http://h:1", 1);
    CHECK_OK(place_find(NULL, &place, &e), e);
    CHECK(place.tcp);
    unsetenv("SANDBOXER_URL");
    setenv("SANDBOXER_SOCKET", "y.sock", 1);
    CHECK(place_find(NULL, &place, &e) == -ERR_INVALID);
}

TEST(nobody_listens)
{
    struct contact c;

    clear_environment();
    setenv("SANDBOXER_SOCKET", "/nonexistent/socket", 1);
    CHECK(contact_open(&c, NULL, CONTACT_ONLY, &e) == -ERR_NOT_FOUND);
    setenv("SANDBOXER_NO_DAEMON", "1", 1);
    CHECK(contact_open(&c, NULL, CONTACT_MAY_START, &e) == -ERR_NOT_FOUND);
    contact_done(&c);
}
