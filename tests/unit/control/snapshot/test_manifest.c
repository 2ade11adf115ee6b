/* SPDX-License-Identifier: Apache-2.0 */
#include "control/snapshot/manifest.h"

#include <stdio.h>
#include <string.h>

#include "harness/tap.h"

#define HEX     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MEASURE "{\"measure\":\"sha256:" HEX "\"}"
#define IMAGE   "{\"measure\":\"sha256:" HEX "\",\"image\":\"sha256-" HEX "\"}"
#define HEAD    "{\"format\":2,\"sandbox_id\":\"sbx_0123456789abcdefghjk\",\"profile\":\"profile.x\","

static struct arena arena = ARENA_INIT(16 << 20);
static struct snapshot_manifest m;
static struct err e;

static int read_text(const char *text)
{
    return snapshot_manifest_read(str_from(text), &arena, &m, &e);
}

TEST(a_manifest_says_what_was_taken)
{
    const struct manifest_layer *l;

    CHECK_OK(read_text(HEAD
                       "\"name\":\"n\",\"bytes\":5,\"labels\":{\"a\":\"b\"},\"image\":\"web:1\","
                       "\"config\":{\"User\":\"7\"},\"layers\":[" MEASURE "," IMAGE "]}"),
             e);
    l = m.layers.p;
    CHECK_INT(m.layers.n, 2);
    CHECK(!l[0].image && strcmp(l[1].image, "sha256-" HEX) == 0 && !l[1].left_out);
    CHECK(m.bytes == 5 && m.labels.n == 1 && strcmp(m.name, "n") == 0);
}

TEST(what_is_no_manifest_is_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        HEAD "\"layers\":[]}",
        HEAD "\"layers\":[{}]}",
        HEAD "\"layers\":[{\"measure\":\"sha256:../../etc\"}]}",
        HEAD "\"layers\":[{\"measure\":\"md5:" HEX "\"}]}",
        HEAD "\"layers\":[" IMAGE "]}", /* nothing was written */
        HEAD "\"image\":\"web:1\",\"layers\":[" MEASURE "," IMAGE "," MEASURE "]}", /* in between */
        HEAD "\"layers\":[{\"measure\":\"sha256:" HEX "\",\"left_out\":true}]}",
        HEAD "\"image\":\"web:1\",\"layers\":[" MEASURE ",{\"measure\":\"sha256:" HEX
             "\",\"image\":\"lay_0123456789abcdefghjk\"}]}",
        HEAD "\"image\":\"web:1\",\"layers\":[" MEASURE ",{\"measure\":\"sha256:" HEX
             "\",\"image\":\"../../etc\"}]}",
        HEAD "\"image\":\"web:1\",\"layers\":[" MEASURE
             "]}", /* an image's name, and no layer of it */
        HEAD "\"image\":\"../x\",\"layers\":[" MEASURE "," IMAGE "]}",
        HEAD "\"image\":\"web:1\",\"config\":[],\"layers\":[" MEASURE "," IMAGE "]}",
        HEAD "\"image\":\"web:1\",\"config\":{\"Env\":[\"no-value\"]},\"layers\":[" MEASURE
             "," IMAGE "]}",
        HEAD "\"labels\":[],\"layers\":[" MEASURE "]}",
        "{\"format\":2,\"sandbox_id\":\"sbx_../..\",\"profile\":\"p\",\"layers\":[" MEASURE "]}",
        "{\"format\":2,\"profile\":\"p\",\"layers\":[" MEASURE "]}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_text(bad[i]) != -ERR_INVALID)
            FAIL("%zu is taken, or refused with '%s'", i, e.msg);
    CHECK_INT(
        read_text("{\"format\":3,\"sandbox_id\":\"sbx_0123456789abcdefghjk\",\"profile\":\"p\","
                  "\"layers\":[" MEASURE "]}"),
        -ERR_UNSUPPORTED);
    CHECK_INT(
        read_text("{\"format\":1,\"sandbox_id\":\"sbx_0123456789abcdefghjk\",\"profile\":\"p\","
                  "\"layers\":[" MEASURE "]}"),
        -ERR_UNSUPPORTED);
    CHECK(strstr(e.msg, "older version") && strstr(e.msg, "export"));
}

TEST(there_are_only_so_many_layers)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MANIFEST_MAX);

    for (size_t n = LAYERS_STACK_MAX; n <= LAYERS_STACK_MAX + 1; n++) {
        text.n = 0;
        CHECK(buf_addf(&text, HEAD "\"layers\":[") >= 0);
        for (size_t i = 0; i < n; i++)
            CHECK(buf_addf(&text, "%s" MEASURE, i ? "," : "") >= 0);
        CHECK(buf_addf(&text, "]}") >= 0);
        CHECK_INT(snapshot_manifest_read(buf_str(&text), &arena, &m, &e),
                  n > LAYERS_STACK_MAX ? -ERR_INVALID : 0);
    }
}
