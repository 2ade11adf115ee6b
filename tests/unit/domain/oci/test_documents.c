/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "harness/tap.h"
#include "domain/oci/config.h"
#include "domain/oci/manifest.h"
#include "domain/oci/saved.h"

#define HEX    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "\"sha256:" HEX "\""
#define OCI    "application/vnd.oci.image."
#define LAYER  "{\"mediaType\":\"" OCI "layer.v1.tar+gzip\",\"digest\":" DIGEST ",\"size\":7}"
#define CONFIG                                                                                     \
    "\"config\":{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":" DIGEST ",\"size\":5}"

static struct arena a = ARENA_INIT(OCI_ARENA_MAX);
static struct err e;

TEST(a_manifest_names_its_parts)
{
    struct oci_manifest m;
    enum oci_document kind;
    struct str text = STR("{\"schemaVersion\":2," CONFIG ",\"layers\":[" LAYER "," LAYER "]}");

    CHECK_OK(oci_document_kind(text, &a, &kind, &e), e);
    CHECK_INT(kind, OCI_MANIFEST);
    CHECK_OK(oci_manifest_read(text, &a, &m, &e), e);
    CHECK_INT(m.n, 2);
    CHECK_INT(m.layers[1].size, 7);
    CHECK_STR(str_from(m.config.digest), "sha256:" HEX);
}

TEST(what_is_no_manifest_is_refused)
{
    static const struct {
        struct str text;
        int r;
    } bad[] = {
        { STR(""), -ERR_INVALID },
        { STR("[]"), -ERR_INVALID },
        { STR("{}"), -ERR_INVALID },
        { STR("{" CONFIG "}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":{}}"), -ERR_INVALID },
        { STR("{\"config\":null,\"layers\":[]}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":[{\"digest\":" DIGEST "}]}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":[{\"digest\":" DIGEST ",\"size\":-1}]}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":[{\"digest\":" DIGEST ",\"size\":1.5}]}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":[{\"digest\":\"sha256:../x\",\"size\":1}]}"), -ERR_INVALID },
        { STR("{" CONFIG ",\"layers\":[{\"mediaType\":\"application/x-foreign\",\"digest\":" DIGEST
              ",\"size\":1}]}"),
          -ERR_UNSUPPORTED },
        { STR("{\"config\":{\"mediaType\":\"application/helm\",\"digest\":" DIGEST
              ",\"size\":1},\"layers\":[]}"),
          -ERR_UNSUPPORTED },
        { STR("{\"config\":{\"digest\":" DIGEST ",\"size\":99999999},\"layers\":[]}"),
          -ERR_TOO_BIG },
    };
    struct oci_manifest m;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (oci_manifest_read(bad[i].text, &a, &m, &e) != bad[i].r)
            FAIL(STR_FMT ": %s", STR_ARG(bad[i].text), e.msg);
}

TEST(a_document_says_what_it_is)
{
    enum oci_document kind;

    CHECK_OK(oci_document_kind(STR("{\"mediaType\":\"" OCI "index.v1+json\",\"manifests\":[]}"), &a,
                               &kind, &e),
             e);
    CHECK_INT(kind, OCI_INDEX);
    CHECK(oci_document_kind(STR("{\"mediaType\":\"" OCI "index.v1+json\",\"layers\":[]}"), &a,
                            &kind, &e) == -ERR_INVALID);
    CHECK(oci_document_kind(STR("{\"layers\":[],\"manifests\":[]}"), &a, &kind, &e) ==
          -ERR_INVALID);
    CHECK(oci_document_kind(STR("{\"fsLayers\":[]}"), &a, &kind, &e) == -ERR_UNSUPPORTED);
    CHECK(oci_document_kind(STR("{\"mediaType\":\"text/html\",\"layers\":[]}"), &a, &kind, &e) ==
          -ERR_UNSUPPORTED);
}

#define FOR(n, os, arch, more)                                                                     \
    "{\"digest\":" DIGEST ",\"size\":" #n ",\"platform\":{\"os\":\"" os                            \
    "\",\"architecture\":\"" arch "\"" more "}}"

TEST(the_manifest_for_a_platform_is_chosen)
{
    struct str text = STR("{\"manifests\":[" FOR(1, "windows", "amd64", "") "," FOR(
        2, "linux", "arm",
        ",\"variant\":\"v6\"") "," FOR(3, "linux", "arm",
                                       ",\"variant\":\"v7\"") "," FOR(4, "linux", "amd64",
                                                                      "") "," FOR(5, "linux",
                                                                                  "arm64",
                                                                                  "") "]}");
    static const struct {
        const char *platform;
        uint64_t size;
    } wanted[] = { { "linux/amd64", 4 }, { "linux/arm/v7", 3 },   { "linux/arm", 2 },
                   { "linux/arm64", 5 }, { "linux/arm64/v8", 5 }, { "windows/amd64", 1 },
                   { "linux/s390x", 0 }, { "linux/amd64/v3", 0 } };
    struct oci_index x;

    CHECK_OK(oci_index_read(text, &a, &x, &e), e);
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        const struct oci_descriptor *d;
        struct oci_platform p;

        CHECK_OK(oci_platform_parse(str_from(wanted[i].platform), &a, &p, &e), e);
        d = oci_index_choose(&x, &p);
        CHECK_INT(d ? d->size : 0, wanted[i].size);
    }
}

TEST(platforms_are_written_one_way)
{
    static const char *const bad[] = { "",
                                       "linux",
                                       "linux/",
                                       "/amd64",
                                       "linux/amd64/",
                                       "Linux/amd64",
                                       "linux/amd64/v1/x",
                                       "linux/am d64" };
    struct oci_platform p;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (oci_platform_parse(str_from(bad[i]), &a, &p, &e) != -ERR_INVALID)
            FAIL("'%s' is taken", bad[i]);
}

TEST(a_configuration_says_how_to_run)
{
    struct oci_config c;

    CHECK_OK(
        oci_config_read(STR("{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"User\":"
                            "\"app\",\"Env\":[\"A=b\"],\"Entrypoint\":[\"/e\"],\"Cmd\":null,"
                            "\"WorkingDir\":\"/w\",\"Labels\":{\"x\":\"y\"}},\"rootfs\":{\"type\":"
                            "\"layers\",\"diff_ids\":[" DIGEST "]}}"),
                        &a, &c, &e),
        e);
    CHECK_STR(str_from(c.user), "app");
    CHECK_STR(str_from(c.workdir), "/w");
    CHECK_STR(str_from(c.env.p[0]), "A=b");
    CHECK_INT(c.entrypoint.n, 1);
    CHECK_INT(c.cmd.n, 0);
    CHECK_INT(c.diff_ids.n, 1);
}

TEST(what_we_write_is_read_again)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);
    struct oci_config c;

    CHECK_OK(oci_config_write("sha256:" HEX, &text, &e), e);
    CHECK_OK(oci_config_read(buf_str(&text), &a, &c, &e), e);
    CHECK_STR(str_from(c.diff_ids.p[0]), "sha256:" HEX);
    CHECK_STR(str_from(c.platform.os), "linux");
}

#define ROOTFS ",\"rootfs\":{\"diff_ids\":[" DIGEST "]}}"

TEST(a_bad_configuration_is_refused)
{
    static const struct str bad[] = {
        STR("{}"),
        STR("{\"rootfs\":{\"diff_ids\":[]}}"),
        STR("{\"rootfs\":{\"diff_ids\":[\"x\"]}}"),
        STR("{\"rootfs\":{\"diff_ids\":[1]}}"),
        STR("{\"config\":{\"Env\":[\"novalue\"]}" ROOTFS),
        STR("{\"config\":{\"Env\":[\"=x\"]}" ROOTFS),
        STR("{\"config\":{\"Env\":[\"a=\\u0000\"]}" ROOTFS),
        STR("{\"config\":{\"Env\":\"a=b\"}" ROOTFS),
        STR("{\"config\":{\"WorkingDir\":\"relative\"}" ROOTFS),
        STR("{\"config\":{\"WorkingDir\":\"/a\\u001b[2J\"}" ROOTFS),
        STR("{\"config\":{\"User\":\"me\\n\"}" ROOTFS),
        STR("{\"config\":{\"Cmd\":[{}]}" ROOTFS),
    };
    struct oci_config c;

    CHECK_OK(oci_config_read(STR("{\"config\":{\"Cmd\":[\"a\\nb\"],\"Env\":[\"a=\\n\"]}" ROOTFS),
                             &a, &c, &e),
             e); /* arguments and values may have several lines */
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (oci_config_read(bad[i], &a, &c, &e) != -ERR_INVALID)
            FAIL(STR_FMT " is taken", STR_ARG(bad[i]));
}

TEST(a_saved_archive_names_its_files)
{
    const struct oci_saved *all;
    size_t n;

    CHECK_OK(oci_saved_read(STR("[{\"Config\":\"c.json\",\"RepoTags\":[\"a:1\"],\"Layers\":"
                                "[\"x/layer.tar\"]},{\"Config\":\"d\",\"RepoTags\":null,"
                                "\"Layers\":[\"y\"]}]"),
                            &a, &all, &n, &e),
             e);
    CHECK_INT(n, 2);
    CHECK_STR(str_from(all[0].layers.p[0]), "x/layer.tar");
    CHECK_INT(all[1].tags.n, 0);
    CHECK(oci_saved_read(STR("[]"), &a, &all, &n, &e) == -ERR_INVALID);
    CHECK(oci_saved_read(STR("{}"), &a, &all, &n, &e) == -ERR_INVALID);
    CHECK(oci_saved_read(STR("[{\"Config\":\"c\"}]"), &a, &all, &n, &e) == -ERR_INVALID);
    CHECK(oci_saved_read(STR("[{\"Layers\":[\"y\"]}]"), &a, &all, &n, &e) == -ERR_INVALID);
    CHECK(oci_saved_read(STR("[{\"Config\":\"c\\n\",\"Layers\":[\"y\"]}]"), &a, &all, &n, &e) ==
          -ERR_INVALID);
    CHECK(oci_saved_read(STR("[{\"Config\":\"c\",\"Layers\":[\"y\\u007f\"]}]"), &a, &all, &n, &e) ==
          -ERR_INVALID);
    CHECK(oci_saved_read(STR("[{\"Config\":\"c\",\"Layers\":[\"y\"],\"RepoTags\":[\"a\\u001b\"]}]"),
                         &a, &all, &n, &e) == -ERR_INVALID);
}
