/* SPDX-License-Identifier: Apache-2.0 */
#include "control/image/image_registry.h"

#include <stdio.h>
#include <unistd.h>

#include "harness/tap.h"

static struct err e;

static int init_for(const char *name, struct registry *r, const struct config_registry *known,
                    const char *credentials)
{
    static struct config config;
    struct oci_reference ref;

    config.images.registries = (struct json_objects){ (void *)(uintptr_t)known, known ? 1 : 0 };
    CHECK_OK(oci_reference_parse(str_from(name), &ref, &e), e);
    return registry_init(r, NULL, NULL, &config, &ref, str_from(credentials), &e);
}

static int init(struct registry *r, const struct config_registry *known, const char *credentials)
{
    return init_for("registry.example:5000/team/web:1", r, known, credentials);
}

TEST(credentials_are_a_name_and_a_password)
{
    struct registry r;

    CHECK_OK(init(&r, NULL, "me:pass:word"), e);
    CHECK_STR(buf_str(&r.basic), "Basic bWU6cGFzczp3b3Jk");
    registry_done(&r);
    CHECK_OK(init(&r, NULL, ""), e);
    CHECK_INT(r.basic.n, 0);
    registry_done(&r);
    CHECK_INT(init(&r, NULL, "nothing"), -ERR_INVALID);
    CHECK(!strstr(e.msg, "nothing")); /* it may be a password */
    registry_done(&r);
}

TEST(credentials_of_the_configuration_are_for_their_host_and_port)
{
    static const struct {
        const char *host;
        bool found;
    } cases[] = {
        { "registry.example:5000", true },
        { "REGISTRY.example:5000", true },
        { "registry.example", false },
        { "registry.example:5001", false },
        { "other.registry.example:5000", false },
    };
    char path[] = "/tmp/registry-test-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, "me:secret\r\n", 11) == 11);
    close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct config_registry known = { .host = cases[i].host, .creds_file = path };
        struct registry r;

        CHECK_OK(init(&r, &known, ""), e);
        if ((r.basic.n > 0) != cases[i].found)
            FAIL("%s: credentials are %s", cases[i].host, r.basic.n ? "taken" : "not taken");
        if (cases[i].found)
            CHECK_STR(buf_str(&r.basic), "Basic bWU6c2VjcmV0");
        registry_done(&r);
    }
    unlink(path);
}

TEST(credentials_are_found_under_either_name_of_docker_s_registry)
{
    static const char *const hosts[] = { "docker.io", "registry-1.docker.io" };
    char path[] = "/tmp/registry-test-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, "me:secret", 9) == 9);
    close(fd);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        const struct config_registry known = { .host = hosts[i], .creds_file = path };
        struct registry r;

        CHECK_OK(init_for("docker.io/debian", &r, &known, ""), e);
        CHECK_STR(str_from(r.host), "registry-1.docker.io");
        CHECK_STR(str_from(r.repository), "library/debian");
        CHECK_STR(buf_str(&r.basic), "Basic bWU6c2VjcmV0");
        registry_done(&r);
    }
    unlink(path);
}

TEST(a_file_without_credentials_is_an_error_that_names_it)
{
    const struct config_registry missing = { .host = "registry.example:5000",
                                             .creds_file = "/nowhere/at/all" };
    const struct config_registry empty = { .host = "registry.example:5000",
                                           .creds_file = "/dev/null" };
    struct registry r;

    CHECK_INT(init(&r, &missing, ""), -ERR_SYS);
    CHECK(strstr(e.msg, "/nowhere/at/all"));
    registry_done(&r);
    CHECK_INT(init(&r, &empty, ""), -ERR_INVALID);
    registry_done(&r);
}
