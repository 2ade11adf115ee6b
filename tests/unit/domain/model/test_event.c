/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"
#include "domain/model/event.h"

static struct str written(const struct event_record *v)
{
    static struct buf out = BUF_INIT(1 << 20);
    struct json_writer w;
    struct err e;

    buf_clear(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    event_write(&w, v);
    CHECK_OK(json_writer_finish(&w, &e), e);
    return buf_str(&out);
}

TEST(a_move_has_everything)
{
    const struct event_record v = { .seq = 7,
                                    .time_ns = INT64_C(1767323045678999999),
                                    .type = "sandbox.ready",
                                    .sandbox = "sbx_1",
                                    .from = SANDBOX_PROVISIONING,
                                    .to = SANDBOX_READY,
                                    .actor = { ACTOR_ADM, "uid:0" },
                                    .reason = "so",
                                    .detail = STR("{\"a\":[1]}") };

    CHECK_STR(written(&v), "{\"seq\":7,\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":"
                           "\"sandbox.ready\",\"sandbox_id\":\"sbx_1\",\"from\":\"provisioning\","
                           "\"to\":\"ready\",\"actor\":{\"kind\":\"adm\",\"id\":\"uid:0\"},"
                           "\"reason\":\"so\",\"detail\":{\"a\":[1]}}");
}

TEST(what_there_is_not_is_left_out)
{
    const struct event_record v = { .type = "token.created", .from = -1, .to = -1 };

    CHECK_STR(written(&v), "{\"seq\":0,\"time\":\"1970-01-01T00:00:00.000Z\",\"type\":"
                           "\"token.created\",\"actor\":{\"kind\":\"adm\",\"id\":\"\"},"
                           "\"reason\":\"\",\"detail\":{}}");
}

TEST(what_is_no_json_does_not_get_into_the_document)
{
    struct event_record v = { .type = "x",
                              .from = -1,
                              .to = -1,
                              .reason = "a\xff"
                                        "b\n" };

    v.detail = STR("{\"a\":");
    CHECK(str_ends(written(&v), STR("\"reason\":\"a\xef\xbf\xbd"
                                    "b\\n\",\"detail\":{}}")));
}
