/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to policy DNS as a sandbox may send them, without the sockets. Whatever they are, an
 * answer is short, has the question's id and is marked as one, and gives addresses only for the one
 * name that is mapped; and only the names of the policy ever lead to a lookup. */
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/adapters/names.h"
#include "engine/egress/audit.h"
#include "engine/egress/fake_addresses.h"
#include "domain/policy/egress_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy[] = "version: 1\n"
                             "network_policies:\n"
                             "  web:\n"
                             "    endpoints:\n"
                             "      - {host: api.example.com, port: 443}\n"
                             "      - {host: '*.wild.example.com', port: 443}\n"
                             "    binaries:\n"
                             "      - {path: /**}\n";

static struct egress_box box;
static struct dns_names *names;

static void must(bool good)
{
    if (!good)
        abort();
}

/* Once: questions that wait for nothing leave nothing behind. */
static void set_up(void)
{
    static struct loop loop;
    static struct egress_state g = { .loop = &loop };
    static struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct fake_mapping m = { .name = "api.example.com", .generation = 1, .expires = INT64_MAX };
    struct egress_policy p;
    struct synthetic s;

    must(loop_init(&loop, NULL) >= 0);
    must(egress_policy_read(str_from(policy), &arena, &p, NULL) >= 0);
    box.egress = &g;
    listeners_init(&box.listeners);
    box.listeners.fd[LISTENER_CAPTURE6] = 0;
    box.audit = audit_new(&loop, "sbx_fuzz", -1);
    box.mapping = fake_addresses_new();
    box.generation = 1;
    box.snapshot = egress_compile(&p, 1, NULL);
    must(box.snapshot && fake_addresses_put(box.mapping, &m, 0, &s, NULL) >= 0);
    names = names_new(&box);
}

static void check_answer(const uint8_t *data, const struct dns_query *q, const uint8_t *out, int n)
{
    must(n >= 12 && n <= NAMES_ANSWER_MAX);
    must(memcmp(out, data, 2) == 0 && out[2] & 0x80);
    if (out[7] > 0) { /* answers */
        must(out[6] == 0 && out[7] == 1 && (out[3] & 15) == DNS_NOERROR);
        must(strcmp(q->question.name, "api.example.com") == 0);
        must(q->question.type == DNS_A || q->question.type == DNS_AAAA);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct names_client from = { { .bytes = { 127, 0, 0, 1 } }, 1024 };
    uint8_t out[NAMES_ANSWER_MAX];
    struct dns_query q;
    int n;

    if (!names)
        set_up();
    n = names_answer(names, (struct str){ (const char *)data, size }, &from, &q, out);
    if (n > 0)
        check_answer(data, &q, out, n);
    else if (n == NAMES_LATER)
        must(str_ends(str_from(q.question.name), STR(".wild.example.com")));
    else
        must(n == 0 && (size < 12 || data[2] & 0x80));
    return 0;
}
