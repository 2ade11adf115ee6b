/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/profile.h"

#include "base/clock.h"
#include "harness/tap.h"
#include "unit/domain/profile/doc_rows.h"

static struct profile *read_it(const char *yaml)
{
    struct profile *p = NULL;
    struct err e = { 0 };

    CHECK_OK(profile_read(str_from(yaml), &p, &e), e);
    return p;
}

static void as_json(const struct profile *p, struct buf *out)
{
    struct json_writer w;
    struct err e;

    json_writer_init(&w, out, JSON_COMPACT);
    profile_write(p, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
}

TEST(the_least_profile_has_defaults)
{
    AUTO(profile_unrefp_) struct profile *p = read_it("id: profile.x\nversion: 3\n");

    CHECK_STR(str_from(p->id), "profile.x");
    CHECK_INT(p->version, 3);
    CHECK_STR(str_from(p->extension), "ext.local");
    CHECK_INT(p->isolation.level, ISOLATION_PROCESS);
    CHECK_INT(p->network.otherwise, NETWORK_DENY);
    CHECK_INT(p->network.egress.n, 0);
    CHECK_INT(p->ttl.usual, 3600 * NS_PER_S);
    CHECK_INT(p->ttl.max, 24 * 3600 * NS_PER_S);
    CHECK_INT(profile_cpu_milli(p), 1000);
    CHECK_STR(str_from(p->user), "root");
    CHECK(p->kernel.calls == CALLS_STANDARD && p->kernel.allow.n == 0);
    CHECK_INT(p->resources.terminals, 16);
    CHECK(p->image == NULL && !p->route.has_require_isolation);
}

static const char full[] =
    "id: profile.full\nversion: 2\ndescription: all of it\nextension: ext.mine\n"
    "isolation: {level: policy}\n"
    "network: {default: deny, egress: [{name: n, host: a.example.com, ports: [80],\n"
    "  protocol: rest, access: read-write, tls: auto, enforcement: audit,\n"
    "  binaries: [/bin/x], allowed_ips: ['2001:db8::/32']}]}\n"
    "workspace: {mode: remote-canonical, access: rw}\nscope_default: shared\n"
    "ttl: {default: 1500ms, max: 3h, idle_reap: 0}\n"
    "resources: {cpu: 0.25, memory_mb: 64, pids: 10, disk_mb: 5, terminals: 2}\n"
    "kernel: {calls: strict, allow: [page-cache, nested-seccomp]}\n"
    "image: debian:12\nwritable_system: false\nworkdir: /work\nuser: '1000'\n"
    "env: {A: b, PATH: /bin}\ncaps: [KILL, CHOWN]\n"
    "setup: {instructions: read me, secret_refs: [a/b]}\n"
    "placement: {prefer: local, fallback: [h1.example.com, ext.e2b]}\nreachability: ssh\n"
    "route: {strategy: lowest-latency, max_cost_per_hour: 5, require_isolation: gvisor,\n"
    "  region: eu-1, gpu: a10g, attestation: true}\n"
    "pool: {min: 1, max: 2}\n"
    "metadata: {cost_class: saas-metered, latency_class: minutes}\n";

TEST(written_and_read_again_it_is_the_same)
{
    AUTO(profile_unrefp_) struct profile *p = read_it(full), *again = NULL;
    AUTO(buf_done) struct buf one = BUF_INIT(1 << 16), two = BUF_INIT(1 << 16);

    as_json(p, &one);
    again = read_it(one.p); /* JSON is YAML */
    as_json(again, &two);
    CHECK_STR(buf_str(&two), one.p);
    CHECK(strstr(one.p, "\"default\":\"1s500ms\"") && strstr(one.p, "\"ports\":[80]"));
    CHECK(strstr(one.p, "\"require_isolation\":\"gvisor\""));
    CHECK_INT(profile_cpu_milli(again), 250);
}

TEST(a_reference_keeps_it)
{
    struct profile *p = read_it(full), *mine = profile_ref(p);

    profile_unref(p);
    CHECK_STR(str_from(mine->description), "all of it");
    profile_unref(mine);
    profile_unref(NULL);
}

TEST(available_if_its_backend_is_there)
{
    static const char *const names[] = { "ext.local", "ext.mine" };
    AUTO(profile_unrefp_) struct profile *p = read_it(full);
    struct err e;

    CHECK_OK(profile_available(p, (struct json_strs){ names, 2 }, &e), e);
    CHECK_INT(profile_available(p, (struct json_strs){ names, 1 }, &e), -ERR_UNSUPPORTED);
    CHECK_STR(str_from(e.msg), "backend ext.mine is not part of this build");
}

TEST(the_schema_describes_every_field)
{
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 16);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_schema(profile_fields, profile_field_count, JSON_SCHEMA_EXACT, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    for (size_t i = 0; i < profile_field_count; i++)
        CHECK(strstr(out.p, profile_fields[i].name));
}

TEST(large_and_deep_files_are_refused)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PROFILE_BYTES_MAX + 100);
    struct profile *p;
    struct err e;

    buf_addf(&text, "id: profile.x\nversion: 1\ndescription: ");
    while (text.n <= PROFILE_BYTES_MAX)
        buf_add_c(&text, 'x');
    CHECK_INT(profile_read(buf_str(&text), &p, &e), -ERR_TOO_BIG);
    CHECK_INT(profile_read(STR("a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"), &p, &e), -ERR_TOO_BIG);
    buf_clear(&text);
    buf_addf(&text, "id: profile.x\nversion: 1\ncaps: [");
    while (text.n < PROFILE_BYTES_MAX - 10)
        buf_addf(&text, "1,"); /* the most values a byte */
    buf_addf(&text, "1]\n");
    CHECK_INT(profile_read(buf_str(&text), &p, &e), -ERR_INVALID);
}

TEST(the_page_says_what_the_table_says)
{
    doc_rows_elsewhere = egress_endpoint_fields;
    check_doc_rows("docs/profiles.md", profile_fields, profile_field_count);
}
