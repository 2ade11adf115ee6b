/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/reference.h"

#include "base/own.h"
#include "harness/tap.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct oci_reference ref;
static struct err e;

static const struct {
    const char *in, *text;
} good[] = {
    { "web", "web:latest" },
    { "web:1.2-x", "web:1.2-x" },
    { "team/web", "team/web:latest" },
    { "localhost/web", "localhost/web:latest" },
    { "localhost:5000/team/web:v1", "localhost:5000/team/web:v1" },
    { "Registry.Example.ORG./a/b", "registry.example.org/a/b:latest" },
    { "registry.example.org:443/a", "registry.example.org:443/a:latest" },
    { "[::1]:5000/a", "[::1]:5000/a:latest" },
    { "127.0.0.1:5000/a__b--c.d", "127.0.0.1:5000/a__b--c.d:latest" },
    { "web@sha256:" HEX, "web@sha256:" HEX },
    { "r.example/web:v1@sha256:" HEX, "r.example/web:v1@sha256:" HEX },
    { "a:5000", "a:5000" }, /* without a slash it is a tag */
};

TEST(references_have_one_spelling)
{
    char text[OCI_REFERENCE_MAX], again[OCI_REFERENCE_MAX];

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CHECK_OK(oci_reference_parse(str_from(good[i].in), &ref, &e), e);
        oci_reference_text(&ref, text);
        CHECK_STR(str_from(text), good[i].text);
        CHECK_OK(oci_reference_parse(str_from(text), &ref, &e), e);
        oci_reference_text(&ref, again);
        CHECK_STR(str_from(again), text);
    }
}

static const struct str bad[] = {
    STR(""),
    STR(":tag"),
    STR("/web"),
    STR("web/"),
    STR("a//b"),
    STR("../a"),
    STR("a/../b"),
    STR("a/./b"),
    STR("Web"),
    STR("a_"),
    STR("-a"),
    STR("a___b"),
    STR("a..b"),
    STR("web:"),
    STR("web:.x"),
    STR("web:-x"),
    STR("web:a/b:c d"),
    STR("web:a b"),
    STR("web@"),
    STR("web@sha256:0123"),
    STR("web@sha512:" HEX),
    STR("web@sha256:" HEX "0"),
    STR("web@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"),
    STR("web@sha256:" HEX "@sha256:" HEX),
    STR("http://localhost/web"),
    STR("user:pw@localhost/web"),
    STR("localhost:0/web"),
    STR("localhost:99999/web"),
    STR("localhost:/web"),
    STR("0x7f.1/web"),
    STR("host./web"),
    STR("web\n"),
    STR("web\0x"),
    STR("we b"),
    STR("w%65b"),
};

TEST(what_is_no_reference_is_refused)
{
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (oci_reference_parse(bad[i], &ref, &e) != -ERR_INVALID)
            FAIL("'" STR_FMT "' is taken", STR_ARG(bad[i]));
}

TEST(a_long_name_is_refused)
{
    char name[400];

    memset(name, 'a', sizeof name);
    CHECK_OK(oci_reference_parse((struct str){ name, OCI_PATH_MAX - 1 }, &ref, &e), e);
    CHECK(oci_reference_parse((struct str){ name, OCI_PATH_MAX }, &ref, &e) == -ERR_INVALID);
    name[1] = ':';
    CHECK_OK(oci_reference_parse((struct str){ name, OCI_TAG_MAX + 1 }, &ref, &e), e);
    CHECK(oci_reference_parse((struct str){ name, OCI_TAG_MAX + 2 }, &ref, &e) == -ERR_INVALID);
}

TEST(docker_io_is_asked_for_where_its_images_are)
{
    static const struct {
        const char *name, *host, *path, *text;
    } cases[] = {
        { "docker.io/debian", "registry-1.docker.io", "library/debian", "docker.io/debian:latest" },
        { "docker.io/library/debian:12", "registry-1.docker.io", "library/debian",
          "docker.io/library/debian:12" },
        { "DOCKER.IO/team/web:1", "registry-1.docker.io", "team/web", "docker.io/team/web:1" },
        { "index.docker.io/web:1", "registry-1.docker.io", "library/web", "index.docker.io/web:1" },
        { "docker.io:5000/web:1", "docker.io:5000", "web", "docker.io:5000/web:1" },
        { "my.docker.io/web:1", "my.docker.io", "web", "my.docker.io/web:1" },
        { "localhost/web:1", "localhost", "web", "localhost/web:1" },
    };
    struct oci_place place;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[OCI_REFERENCE_MAX];

        CHECK_OK(oci_reference_parse(str_from(cases[i].name), &ref, &e), e);
        CHECK_OK(oci_reference_place(&ref, &place, &e), e);
        CHECK_STR(str_from(place.host), cases[i].host);
        CHECK_STR(str_from(place.path), cases[i].path);
        oci_reference_text(&ref, text);
        CHECK_STR(str_from(text), cases[i].text);
    }
    memset(ref.path, 'x', sizeof ref.path - 1);
    snprintf(ref.host, sizeof ref.host, "docker.io");
    CHECK_INT(oci_reference_place(&ref, &place, &e), -ERR_INVALID);
}
