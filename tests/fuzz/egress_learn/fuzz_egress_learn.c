/* SPDX-License-Identifier: Apache-2.0 */
/* A log whose destinations and programs the workload chose: the answer is one JSON document, its
 * policy is valid and clean text, and a proposal that cannot be proved is never made. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "domain/policy/egress_file.h"
#include "engine/egress/learn/learn.h"
#include "lib/json/reader.h"

enum { MEMORY = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_hold(bool good)
{
    if (!good)
        abort();
}

static bool is_clean_text(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < 0x20 && c != '\n') || c == 0x7F)
            return false;
    }
    return true;
}

static void check_learned(struct str answer)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    const struct json_limits limits = { .bytes = MEMORY, .depth = 16 };
    const struct json *v, *policy;
    struct egress_policy read;
    struct err e;

    must_hold(json_read(answer, limits, &a, &v, &e) >= 0);
    policy = json_get(v, STR("policy"));
    must_hold(policy && policy->type == JSON_STR && is_clean_text(policy->s));
    must_hold(egress_policy_read(policy->s, &a, &read, &e) >= 0);
}

/* Whatever the log has in it, a question that is right is answered: a workload must not be able to
 * prevent a proposal. */
static void check_log(struct str log)
{
    static const struct str questions[] = {
        STR("{}\n"), STR("{\"merge\":2,\"denied\":true,\"suspicious\":true}\n"),
        STR("{\"programs\":true}\n")
    };
    struct err e = { 0 };

    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        AUTO(buf_done) struct buf out = BUF_INIT(MEMORY), in = BUF_INIT(MEMORY);

        buf_add(&in, questions[i]);
        buf_add(&in, log);
        must_hold(learn_text(buf_str(&in), &out, &e) >= 0);
        check_learned(buf_str(&out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY);
    struct str text = { (const char *)data, size }, question, log;
    struct err e = { 0 };

    if (learn_text(text, &out, &e) >= 0)
        check_learned(buf_str(&out));
    else
        must_hold(e.code != ERR_BUG && e.msg[0]);
    log = str_cut(text, '\n', &question);
    check_log(log);
    return 0;
}
