/* SPDX-License-Identifier: Apache-2.0 */
/* How many decisions a core makes in a second, under a bundle of so many rules.
 * usage: trust-decisions [RULES [SECONDS]]     prints: rules N decisions_per_second N */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lib/json/reader.h"
#include "trust/decide.h"

static struct trust_bundle *make_bundle(uint64_t rules)
{
    struct buf text = BUF_INIT(BUNDLE_BYTES_MAX);
    struct trust_bundle *b = NULL;
    struct err e;

    (void)buf_addf(&text, "version: 1\ntools:\n");
    for (uint64_t i = 0; i < rules; i++)
        (void)buf_addf(&text,
                       "  tool_%llu:\n    tier: 2\n    effect: execute\n"
                       "    rate: { calls: 1000000, per: 1s }\n"
                       "    args:\n      sandbox_id: { pattern: 'sbx_[0-9a-z]{20}' }\n"
                       "    when:\n      net: { network: true, tier: 4 }\n",
                       (unsigned long long)i);
    if (trust_bundle_read(buf_str(&text), &b, &e) < 0) {
        fprintf(stderr, "trust-decisions: %s\n", e.msg);
        exit(1);
    }
    buf_done(&text);
    return b;
}

static const struct json *make_args(struct arena *a)
{
    const struct json_limits limits = { .bytes = 4096, .depth = 8 };
    const struct json *v;
    struct err e;

    if (json_read(STR("{\"sandbox_id\":\"sbx_0123456789abcdefghjk\",\"command\":\"make test\"}"),
                  limits, a, &v, &e) < 0) {
        fprintf(stderr, "trust-decisions: %s\n", e.msg);
        exit(1);
    }
    return v;
}

/* Another tool each time, in an order that no cache likes. */
static uint64_t measure(const struct trust_bundle *b, uint64_t rules, int64_t for_ns)
{
    struct arena a = ARENA_INIT(1 << 20);
    struct trust_capabilities sandbox = { 0 };
    struct trust_case c = {
        .bundle = b, .args = make_args(&a), .sandbox = &sandbox, .role = ROLE_JOURNEYMAN
    };
    int64_t began = clock_mono(), now = began;
    uint64_t n = 0, at = 0;
    char tool[32] = "";

    for (; now - began < for_ns; now = clock_mono(), n++) {
        struct trust_decision d;

        at = (at * 6364136223846793005u + 1442695040888963407u) & UINT32_MAX;
        c.tool = (struct str){ tool, (size_t)snprintf(tool, sizeof tool, "tool_%llu",
                                                      (unsigned long long)(at % rules)) };
        c.now_ns = now;
        trust_decide(&c, &d);
        if (d.verdict.kind != VERDICT_ALLOW) {
            fprintf(stderr, "trust-decisions: %s: %s\n", d.verdict.rule, d.verdict.reason);
            exit(1);
        }
    }
    arena_done(&a);
    return (uint64_t)((double)n * (double)NS_PER_S / (double)(now - began));
}

int main(int argc, char **argv)
{
    uint64_t rules = 1000, seconds = 2;
    struct trust_bundle *b;

    if ((argc > 1 && !str_to_u64(str_from(argv[1]), &rules)) || rules == 0 ||
        rules > BUNDLE_RULES_MAX || (argc > 2 && !str_to_u64(str_from(argv[2]), &seconds)) ||
        seconds > 3600) {
        fprintf(stderr, "usage: trust-decisions [RULES [SECONDS]]\n");
        return 2;
    }
    b = make_bundle(rules);
    printf("rules %llu decisions_per_second %llu\n", (unsigned long long)rules,
           (unsigned long long)measure(b, rules, (int64_t)seconds * NS_PER_S));
    trust_bundle_free(b);
    return 0;
}
