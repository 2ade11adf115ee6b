/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/egress/names_world.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/dns/wire.h"
#include "engine/egress/audit.h"
#include "engine/egress/fake_addresses.h"
#include "harness/tap.h"
#include "domain/policy/egress_file.h"

struct world world;
static struct arena policies = ARENA_INIT(EGRESS_MEMORY_MAX);
static struct err e;

/* --- The server --- */

static const struct served *find_served(const char *name)
{
    for (const struct served *s = world.served; s && s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

static size_t addresses_of(const struct served *s, struct address *list)
{
    size_t n = 0;

    while (n < COUNT_OF(s->addresses) && s->addresses[n]) {
        CHECK(address_parse(str_from(s->addresses[n]), &list[n]));
        n++;
    }
    return n;
}

/* name CNAME alias, and alias' address of the asked family, if it has one. */
static size_t answer_alias(const struct served *s, const struct dns_query *q, uint8_t *out)
{
    uint8_t alias[DNS_NAME_WIRE_MAX];
    size_t alias_n = dns_name_write(str_from(s->alias), alias),
           size = q->question.type == DNS_A ? 4 : 16;
    struct dns_writer w = { out, 0 };
    struct address list[4];
    size_t n = addresses_of(s, list), target;
    uint16_t answers = 1;

    dns_write_head(&w, &(struct dns_head){ q->id, 0x8180, 1, 1, 0, 0 });
    dns_write_bytes(&w, q->wire_, q->wire_n_);
    dns_write_u16(&w, 0xc00c);
    dns_write_u16(&w, DNS_CNAME);
    dns_write_u16(&w, DNS_IN);
    dns_write_u32(&w, s->ttl);
    dns_write_u16(&w, (uint16_t)alias_n);
    target = w.n;
    dns_write_bytes(&w, alias, alias_n);
    for (size_t i = 0; i < n; i++) {
        if (list[i].v6 != (q->question.type == DNS_AAAA))
            continue;
        dns_write_u16(&w, (uint16_t)(0xc000 | target));
        dns_write_u16(&w, q->question.type);
        dns_write_u16(&w, DNS_IN);
        dns_write_u32(&w, s->ttl);
        dns_write_u16(&w, (uint16_t)size);
        dns_write_bytes(&w, list[i].bytes, size);
        answers++;
    }
    out[7] = (uint8_t)answers;
    return w.n;
}

static void serve(struct serving *server, const struct dns_query *q)
{
    const struct served *s = find_served(q->question.name);
    static const struct served any = { .ttl = 60, .addresses = { "93.184.216.34" } };
    struct address list[4];
    uint8_t out[DNS_UDP_MIN];
    size_t n;

    if (world.silent)
        return;
    if (!s)
        s = &any;
    if (s->alias)
        n = answer_alias(s, q, out);
    else
        n = dns_build_answer(q, s->rcode, list, addresses_of(s, list), s->ttl, out, sizeof out);
    serving_send(server, out, n);
}

/* --- The box --- */

static int listener(int type, uint16_t *ret_port)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    if (type == SOCK_STREAM)
        CHECK(listen(fd, 64) == 0);
    else
        CHECK(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

void world_set_policy(const char *policy, uint64_t generation)
{
    struct egress_policy p;

    egress_snapshot_unref(world.box.snapshot);
    world.box.snapshot = NULL;
    world.box.generation = generation;
    if (!policy)
        return;
    CHECK_OK(egress_policy_read(str_from(policy), &policies, &p, &e), e);
    world.box.snapshot = egress_compile(&p, generation, &e);
    CHECK(world.box.snapshot);
}

void world_start_on(struct listeners *l, const char *policy, const struct served *served)
{
    struct egress_box *b = &world.box;

    CHECK_OK(loop_init(&world.loop, &e), e);
    serving_start(&world.server, &world.loop, serve);
    world.served = served;
    world.egress.loop = &world.loop;
    CHECK_OK(dns_resolver_init(&world.egress.resolver, &world.loop, &world.server.at, 1, &e), e);
    b->egress = &world.egress;
    b->listeners = *l;
    b->audit = audit_new(&world.loop, "sbx_test", records_open(&world.records));
    b->mapping = fake_addresses_new();
    world_set_policy(policy, 1);
    CHECK_OK(dns_adapter_new(b, &world.dns, &e), e);
}

void world_start(const char *policy, const struct served *served)
{
    struct listeners l;

    listeners_init(&l);
    l.fd[LISTENER_DNS_UDP4] = listener(SOCK_DGRAM, &world.udp_port);
    l.fd[LISTENER_DNS_TCP4] = listener(SOCK_STREAM, &world.tcp_port);
    l.fd[LISTENER_CAPTURE6] = dup(l.fd[LISTENER_DNS_TCP4]); /* there is one: that is all */
    world_start_on(&l, policy, served);
}

void world_stop(void)
{
    dns_adapter_free(world.dns);
    listeners_done(&world.box.listeners);
    egress_snapshot_unref(world.box.snapshot);
    fake_addresses_free(world.box.mapping);
    audit_free(world.box.audit);
    dns_resolver_done(&world.egress.resolver);
    serving_stop(&world.server);
    loop_done(&world.loop);
}

void world_run(int64_t ns)
{
    int64_t until = clock_mono() + ns;

    for (int64_t left; (left = until - clock_mono()) > 0;)
        CHECK(loop_run_once(&world.loop, left, &e) >= 0);
}

/* --- The client --- */

/* Every question has another id. */
size_t make_question(const char *name, uint16_t type, uint8_t out[static DNS_QUERY_MAX])
{
    static uint16_t id;
    struct dns_writer w = { out, 0 };
    struct str rest = str_from(name), label;

    dns_write_head(&w, &(struct dns_head){ ++id, DNS_RECURSION_DESIRED, 1, 0, 0, 0 });
    while (rest.p && rest.n) {
        uint8_t n;

        rest = str_cut(rest, '.', &label);
        n = (uint8_t)label.n;
        dns_write_bytes(&w, &n, 1);
        dns_write_bytes(&w, label.p, label.n);
    }
    dns_write_bytes(&w, "", 1);
    dns_write_u16(&w, type);
    dns_write_u16(&w, DNS_IN);
    return w.n;
}

struct reply read_reply(const void *bytes, size_t n)
{
    struct reply r = { .n = n };
    struct dns_reader in = { { (const char *)r.bytes, n }, 0 };
    struct dns_head h;
    struct dns_name name;
    uint16_t u, type, length;

    CHECK(n <= sizeof r.bytes);
    memcpy(r.bytes, bytes, n);
    CHECK(dns_read_head(&in, &h) && h.flags & DNS_IS_ANSWER);
    r.rcode = h.flags & DNS_RCODE;
    r.answers = h.answers;
    if (h.questions)
        CHECK(dns_name_read(in.message, &in.at, false, &name) && dns_skip(&in, 4));
    if (h.answers == 0)
        return r;
    CHECK(dns_name_read(in.message, &in.at, true, &name) && dns_read_u16(&in, &type) &&
          dns_read_u16(&in, &u) && dns_read_u32(&in, &r.ttl) && dns_read_u16(&in, &length));
    r.address.v6 = type == DNS_AAAA;
    CHECK_INT(length, r.address.v6 ? 16 : 4);
    memcpy(r.address.bytes, r.bytes + in.at, length);
    return r;
}

int world_client(const char *to)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(world.udp_port) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    CHECK(inet_pton(AF_INET, to, &at.sin_addr) == 1);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

struct reply ask_with(int fd, const char *name, uint16_t type)
{
    uint8_t question[DNS_QUERY_MAX], bytes[1024];
    size_t n = make_question(name, type, question);
    int64_t until = clock_mono() + 3 * NS_PER_S;
    ssize_t got = -1;

    CHECK(send(fd, question, n, 0) == (ssize_t)n);
    while (got < 0 && clock_mono() < until) {
        CHECK(loop_run_once(&world.loop, 20 * NS_PER_MS, &e) >= 0);
        got = recv(fd, bytes, sizeof bytes, 0);
    }
    if (got < 0)
        return (struct reply){ 0 };
    CHECK(got >= 12 && memcmp(bytes, question, 2) == 0); /* the id */
    return read_reply(bytes, (size_t)got);
}

struct reply ask(const char *name, uint16_t type)
{
    int fd = world_client("127.0.0.1");
    struct reply r = ask_with(fd, name, type);

    close(fd);
    return r;
}
