/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/fake_addresses.h"
#include "harness/tap.h"
#include "unit/engine/egress/names_world.h"

enum { HTTPS = 65, PTR = 12, TXT = 16, ANY = 255 };

static const char policy[] =
    "version: 1\n"
    "network_policies:\n"
    "  web:\n"
    "    endpoints:\n"
    "      - {host: api.example.com, port: 443}\n"
    "      - {host: api.example.com, port: 8443}\n"
    "      - {host: '*.wild.example.com', port: 443}\n"
    "      - {host: '*.google.internal', port: 80}\n"
    "      - {host: db.example.com, port: 5432, allowed_ips: [93.184.216.40]}\n"
    "    binaries:\n"
    "      - {path: /**}\n"
    "  tool:\n"
    "    endpoints:\n"
    "      - {host: tool.example.com, port: 443}\n"
    "    binaries:\n"
    "      - {path: /usr/bin/tool}\n";

static const struct served names[] = {
    { "api.example.com", .ttl = 300, .addresses = { "93.184.216.34", "2606:2800::1" } },
    { "db.example.com", .ttl = 5, .addresses = { "93.184.216.40" } },
    { "tool.example.com", .ttl = 5, .addresses = { "93.184.216.35" } },
    { "mixed.wild.example.com", .ttl = 5, .addresses = { "93.184.216.34", "10.0.0.1" } },
    { "mixed6.wild.example.com", .ttl = 5, .addresses = { "93.184.216.34", "fd00::1" } },
    { "none.wild.example.com", .rcode = DNS_NXDOMAIN },
    { "bad.wild.example.com", .rcode = DNS_SERVFAIL },
    { "empty.wild.example.com", .ttl = 5 },
    { "alias.wild.example.com", .ttl = 9, .addresses = { "93.184.216.36" },
      .alias = "elsewhere.example.org" },
    { "inner.wild.example.com", .ttl = 9, .addresses = { "127.0.0.1" }, .alias = "localhost" },
    { .name = NULL },
};

static char text[ADDRESS_TEXT_MAX];

static void check_rcode(const char *name, uint16_t type, enum dns_rcode rcode)
{
    struct reply r = ask(name, type);

    CHECK(r.n > 0);
    CHECK_INT(r.rcode, rcode);
    CHECK_INT(r.answers, 0);
}

static const struct json *last_record(void)
{
    records_read(&world.records);
    CHECK(world.records.n > 0);
    return world.records.line[world.records.n - 1];
}

/* --- Refused names, for which no server is queried --- */

TEST(names_without_an_endpoint_are_refused_and_nobody_is_asked)
{
    static const char *const none[] = {
        "example.com",
        "wild.example.com",
        "a.b.wild.example.com",
        "secret.attacker.test",
        "api.example.com.lan",
        "xapi.example.com",
        "localhost",
        "inference.local",
        "policy.local",
        "metadata.google.internal",
        "1.0.0.127.in-addr.arpa",
        "93.184.216.34",
        "-a.example.com",
        "com",
        "",
    };

    world_start(policy, names);
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        check_rcode(none[i], DNS_A, DNS_NXDOMAIN);
        check_rcode(none[i], DNS_AAAA, DNS_NXDOMAIN);
        check_rcode(none[i], HTTPS, DNS_NXDOMAIN);
        check_rcode(none[i], TXT, DNS_NXDOMAIN);
    }
    CHECK_INT(world.server.asked, 0);
    CHECK_INT(world.box.counters.denied, 4 * COUNT_OF(none));
    world_stop();
    records_read(&world.records);
    CHECK_INT(records_count(&world.records, NULL), 4 * COUNT_OF(none));
    CHECK_STR(str_from(record_text(world.records.line[0], "dst_endpoint.hostname")), "example.com");
    CHECK_STR(str_from(record_text(world.records.line[0], "unmapped.adapter")), "dns");
    CHECK_STR(str_from(record_text(world.records.line[0], "action")), "Denied");
}

TEST(without_a_policy_everything_is_refused)
{
    world_start(NULL, names);
    check_rcode("api.example.com", DNS_A, DNS_SERVFAIL); /* until there is one */
    CHECK_STR(str_from(record_text(last_record(), "status_code")), "policy_missing");
    CHECK_INT(world.server.asked, 0);
    world_stop();
}

/* Final for every resolver, kept by none: a name that is allowed later is found at once. */
TEST(refusals_say_blocked_and_are_not_kept)
{
    static const uint8_t blocked[] = { 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 6, 0, 15, 0, 2, 0, 15 };
    static const char *const refused[] = { "secret.attacker.test", "mixed.wild.example.com",
                                           "1.0.18.198.in-addr.arpa" };
    uint8_t q[DNS_QUERY_MAX], bytes[512];

    world_start(policy, names);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        size_t n = dns_build_query(7, str_from(refused[i]), DNS_A, true, q);
        int fd = world_client("127.0.0.1");

        CHECK(send(fd, q, n, 0) == (ssize_t)n);
        world_run(50 * NS_PER_MS);
        CHECK_INT(recv(fd, bytes, sizeof bytes, 0), n + 6);
        CHECK_INT(bytes[3] & 15, DNS_NXDOMAIN);
        CHECK(memcmp(bytes + 4, "\0\1\0\0\0\0\0\1", 8) == 0); /* no SOA */
        CHECK(memcmp(bytes + n - 11, blocked, sizeof blocked) == 0);
        close(fd);
        check_rcode(refused[i], PTR, i == 1 ? DNS_NOERROR : DNS_NXDOMAIN);
    }
    CHECK_INT(world.server.asked, 2); /* for the name that the policy has */
    world_set_policy("version: 1\nunlisted: {access: public}\n", 2);
    CHECK_INT(ask("secret.attacker.test", DNS_A).answers, 1);
    world_stop();
}

TEST(local_names_are_not_for_the_resolver)
{
    world_start("version: 1\nunlisted: {access: public}\n", names);
    check_rcode("inference.local", DNS_A, DNS_NXDOMAIN);
    check_rcode("POLICY.local", DNS_A, DNS_NXDOMAIN);
    check_rcode("metadata.google.internal", DNS_A, DNS_NXDOMAIN);
    CHECK_INT(world.server.asked, 0);
    CHECK_INT(ask("anything.example.net", DNS_A).answers, 1);
    CHECK_INT(world.server.asked, 2);
    world_stop();
}

TEST(other_records_of_eligible_names_are_not_there)
{
    world_start(policy, names);
    check_rcode("api.example.com", HTTPS, DNS_NOERROR);
    check_rcode("api.example.com", PTR, DNS_NOERROR);
    check_rcode("api.example.com", TXT, DNS_NOERROR);
    check_rcode("api.example.com", ANY, DNS_NOTIMP);
    CHECK_INT(world.server.asked, 0);
    CHECK_INT(ask("api.example.com", DNS_A).answers, 1);
    check_rcode("api.example.com", HTTPS, DNS_NOERROR); /* mapped, too */
    world_stop();
}

TEST(nonsense_is_answered_or_passed_over)
{
    uint8_t q[DNS_QUERY_MAX], bytes[512];
    int fd;
    size_t n;

    world_start(policy, names);
    fd = world_client("127.0.0.1");
    n = make_question("api.example.com", DNS_A, q);
    q[2] |= 0x80; /* an answer */
    CHECK(send(fd, q, n, 0) == (ssize_t)n && send(fd, "x", 1, 0) == 1 && send(fd, "", 0, 0) == 0);
    world_run(50 * NS_PER_MS);
    CHECK(recv(fd, bytes, sizeof bytes, 0) < 0);
    q[2] &= 0x7f;
    q[5] = 2; /* questions */
    CHECK(send(fd, q, n, 0) == (ssize_t)n);
    world_run(50 * NS_PER_MS);
    CHECK(recv(fd, bytes, sizeof bytes, 0) >= 12 && (bytes[3] & 15) == DNS_FORMERR);
    CHECK_STR(str_from(record_text(last_record(), "status_code")), "malformed");
    CHECK_INT(world.server.asked, 0);
    close(fd);
    world_stop();
}

/* --- What is answered --- */

TEST(an_eligible_name_is_mapped_before_it_is_answered)
{
    const struct fake_mapping *m;
    struct reply four, six;

    world_start(policy, names);
    four = ask("api.example.com", DNS_A);
    CHECK_INT(four.rcode, DNS_NOERROR);
    CHECK_INT(four.answers, 1);
    CHECK(!four.address.v6 && fake_addresses_is_synthetic(&four.address));
    CHECK_INT(four.ttl, EGRESS_DNS_TTL_MAX);
    m = fake_addresses_find(world.box.mapping, &four.address);
    CHECK(m && m->n_pinned == 2 && m->ports.n == 2 && m->generation == 1);
    CHECK_STR(address_text(&m->pinned[0], text), "93.184.216.34");
    CHECK_INT(m->ports.p[0], 443);
    CHECK(m->expires > clock_mono());
    six = ask("api.example.com", DNS_AAAA);
    CHECK(six.answers == 1 && six.address.v6 && fake_addresses_is_synthetic(&six.address));
    CHECK(fake_addresses_find(world.box.mapping, &six.address) == m);
    CHECK_INT(world.server.asked, 2); /* one lookup, for both families */
    CHECK_INT(world.box.counters.allowed, 1);
    records_read(&world.records);
    CHECK_INT(world.records.n, 2); /* the name leaves; one decision */
    CHECK_STR(str_from(record_text(world.records.line[0], "query.hostname")), "api.example.com");
    CHECK_STR(str_from(record_text(world.records.line[1], "action")), "Allowed");
    CHECK_STR(str_from(record_text(world.records.line[1], "dst_endpoint.ip")), "93.184.216.34");
    world_stop();
}

TEST(where_ipv6_is_not_captured_there_is_none)
{
    world_start(policy, names);
    drop_fd(&world.box.listeners.fd[LISTENER_CAPTURE6]);
    check_rcode("api.example.com", DNS_AAAA, DNS_NOERROR);
    CHECK_INT(ask("api.example.com", DNS_A).answers, 1);
    CHECK_INT(world.server.asked, 2);
    world_stop();
}

TEST(the_question_comes_back_as_it_was_spelled)
{
    uint8_t q[DNS_QUERY_MAX];
    struct reply r, again;
    size_t n;

    world_start(policy, names);
    r = ask("aPi.ExAmPlE.cOm.", DNS_A);
    n = make_question("aPi.ExAmPlE.cOm", DNS_A, q);
    CHECK(r.answers == 1 && memcmp(r.bytes + 12, q + 12, n - 12) == 0);
    again = ask("api.example.com", DNS_A);
    CHECK(address_equal(&r.address, &again.address));
    CHECK_INT(world.server.asked, 2);
    world_stop();
}

TEST(questions_at_the_same_time_share_a_lookup)
{
    int fd[20], answered = 0;
    uint8_t q[DNS_QUERY_MAX], bytes[512];
    size_t n;

    world_start(policy, names);
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        fd[i] = world_client("127.0.0.1");
        n = make_question("api.example.com", i % 2 ? DNS_AAAA : DNS_A, q);
        CHECK(send(fd[i], q, n, 0) == (ssize_t)n);
    }
    world_run(200 * NS_PER_MS);
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        answered += recv(fd[i], bytes, sizeof bytes, 0) > 0 && bytes[7] == 1;
        close(fd[i]);
    }
    CHECK_INT(answered, COUNT_OF(fd));
    CHECK_INT(world.server.asked, 2);
    world_stop();
}

TEST(the_answer_comes_from_the_address_that_was_asked)
{
    int fd;

    world_start(policy, names);
    fd = world_client("127.9.8.7"); /* connected: another source would not be heard */
    CHECK_INT(ask_with(fd, "api.example.com", DNS_A).answers, 1); /* after a lookup */
    CHECK_INT(ask_with(fd, "api.example.com", DNS_A).answers, 1); /* at once */
    close(fd);
    world_stop();
}

TEST(the_program_does_not_matter_for_a_name)
{
    world_start(policy, names);
    CHECK_INT(ask("tool.example.com", DNS_A).answers, 1);
    world_stop();
}

/* --- Addresses --- */

static void check_refused_after_lookup(const char *name, const char *code)
{
    unsigned before = world.server.asked;
    struct synthetic s;

    check_rcode(name, DNS_A, DNS_NXDOMAIN);
    CHECK_INT(world.server.asked, before + 2);
    CHECK_STR(str_from(record_text(last_record(), "status_code")), code);
    CHECK(!fake_addresses_find_name(world.box.mapping, str_from(name), &s));
}

TEST(one_bad_address_refuses_the_name)
{
    world_start(policy, names);
    check_refused_after_lookup("mixed.wild.example.com", "ssrf_denied");
    check_refused_after_lookup("mixed6.wild.example.com", "ssrf_denied");
    check_refused_after_lookup("inner.wild.example.com", "ssrf_denied");
    world_stop();
}

TEST(declared_addresses_and_aliases)
{
    struct reply r;

    world_start(policy, names);
    r = ask("db.example.com", DNS_A);
    CHECK(r.answers == 1 && r.ttl <= 5);
    CHECK_INT(fake_addresses_find(world.box.mapping, &r.address)->ports.p[0], 5432);
    r = ask("alias.wild.example.com", DNS_A); /* the last name's address decides */
    CHECK_INT(r.answers, 1);
    CHECK_STR(address_text(&fake_addresses_find(world.box.mapping, &r.address)->pinned[0], text),
              "93.184.216.36");
    world_stop();
}

TEST(what_the_resolver_says_of_a_name)
{
    world_start(policy, names);
    check_rcode("none.wild.example.com", DNS_A, DNS_NXDOMAIN);
    check_rcode("empty.wild.example.com", DNS_A, DNS_NOERROR);
    check_rcode("bad.wild.example.com", DNS_A, DNS_SERVFAIL);
    records_read(&world.records);
    CHECK_INT(records_count(&world.records, "resolution_failed"), 3);
    world_stop();
}

/* First public, with no time to live; then loopback. */
TEST(rebinding_is_a_decision_of_its_own)
{
    static struct served rebound[] = {
        { "api.example.com", .ttl = 0, .addresses = { "93.184.216.34" } }, { .name = NULL }
    };
    const struct fake_mapping *m;
    struct reply r;

    world_start(policy, rebound);
    r = ask("api.example.com", DNS_A);
    CHECK(r.answers == 1 && r.ttl == 1);
    rebound[0].addresses[0] = "127.0.0.1";
    CHECK_INT(ask("api.example.com", DNS_A).answers, 1); /* the checked address */
    CHECK_INT(world.server.asked, 2);
    world_run(1100 * NS_PER_MS);
    check_rcode("api.example.com", DNS_A, DNS_NXDOMAIN);
    CHECK_INT(world.server.asked, 4);
    m = fake_addresses_find(world.box.mapping, &r.address);
    CHECK_STR(address_text(&m->pinned[0], text), "93.184.216.34");
    CHECK(m->expires <= clock_mono() + EGRESS_DNS_SLACK_NS);
    world_stop();
}

/* --- Policies that change --- */

TEST(a_new_policy_forgets_what_the_old_one_allowed)
{
    struct reply r, again;

    world_start(policy, names);
    r = ask("api.example.com", DNS_A);
    world_set_policy("version: 1\nnetwork_policies: {}\n", 2);
    check_rcode("api.example.com", DNS_A, DNS_NXDOMAIN);
    CHECK_INT(world.server.asked, 2);
    world_set_policy(policy, 3);
    again = ask("api.example.com", DNS_A);
    CHECK(address_equal(&again.address, &r.address)); /* never another's */
    CHECK_INT(world.server.asked, 2);                 /* the new decision uses the cached answers */
    CHECK_INT(fake_addresses_find(world.box.mapping, &r.address)->generation, 3);
    world_stop();
}

TEST(a_policy_that_changes_during_the_lookup)
{
    uint8_t q[DNS_QUERY_MAX], bytes[512];
    struct synthetic s;
    size_t n;
    int fd;

    world_start(policy, names);
    world.silent = true;
    fd = world_client("127.0.0.1");
    n = make_question("api.example.com", DNS_A, q);
    CHECK(send(fd, q, n, 0) == (ssize_t)n);
    world_run(50 * NS_PER_MS);
    CHECK_INT(world.server.asked, 2);
    world_set_policy(policy, 2);
    world.silent = false;
    world_run(2500 * NS_PER_MS); /* asked again after the timeout */
    CHECK(recv(fd, bytes, sizeof bytes, 0) >= 12 && (bytes[3] & 15) == DNS_SERVFAIL);
    CHECK_STR(str_from(record_text(last_record(), "status_code")), "stale_policy");
    CHECK(!fake_addresses_find_name(world.box.mapping, STR("api.example.com"), &s));
    close(fd);
    world_stop();
}

TEST(what_cannot_be_recorded_is_not_answered)
{
    struct synthetic s;

    world_start(policy, names);
    audit_set_fd(world.box.audit, open("/dev/full", O_WRONLY | O_CLOEXEC));
    check_rcode("api.example.com", DNS_A, DNS_SERVFAIL);
    CHECK(!fake_addresses_find_name(world.box.mapping, STR("api.example.com"), &s));
    world_stop();
}

TEST(lookups_have_a_rate)
{
    enum { NAMES = 400 };
    uint8_t q[DNS_QUERY_MAX], bytes[512];
    int fd, good = 0, failed = 0;
    char name[64];

    world_start(policy, names);
    fd = world_client("127.0.0.1");
    for (int i = 0; i < NAMES; i++) {
        size_t n;

        snprintf(name, sizeof name, "n%d.wild.example.com", i);
        n = make_question(name, DNS_A, q);
        CHECK(send(fd, q, n, 0) == (ssize_t)n);
        if (i % 8 == 7)
            world_run(3 * NS_PER_MS);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
            *((bytes[3] & 15) == DNS_SERVFAIL ? &failed : &good) += 1;
    }
    world_run(200 * NS_PER_MS);
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        *((bytes[3] & 15) == DNS_SERVFAIL ? &failed : &good) += 1;
    CHECK_INT(good + failed, NAMES);
    CHECK(good >= 50 && good < EGRESS_LOOKUPS_BURST + 3 * EGRESS_LOOKUPS_A_SECOND);
    CHECK_INT(world.server.asked, 2 * good);
    close(fd);
    world_stop();
    records_read(&world.records);
    CHECK_INT(records_count(&world.records, NULL), NAMES + good);
    CHECK_INT(records_lines(&world.records, "looked_up"), good);
}

TEST(the_end_of_a_box_with_questions_open)
{
    uint8_t q[DNS_QUERY_MAX];
    size_t n;
    int fd;

    world_start(policy, names);
    world.silent = true;
    fd = world_client("127.0.0.1");
    n = make_question("api.example.com", DNS_A, q);
    CHECK(send(fd, q, n, 0) == (ssize_t)n);
    world_run(30 * NS_PER_MS);
    world_stop();
    close(fd);
}

/* --- TCP --- */

static int tcp_client(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(world.tcp_port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static size_t add_framed(uint8_t *out, const char *name, uint16_t type)
{
    size_t n = make_question(name, type, out + 2);

    out[0] = (uint8_t)(n >> 8);
    out[1] = (uint8_t)n;
    return n + 2;
}

/* Receives the available bytes; -1 at the end of the stream. */
static ssize_t drain(int fd, uint8_t *out, size_t size)
{
    size_t at = 0;
    ssize_t n;

    while ((n = recv(fd, out + at, size - at, MSG_DONTWAIT)) > 0)
        at += (size_t)n;
    return n == 0 && at == 0 ? -1 : (ssize_t)at;
}

TEST(many_questions_a_connection_in_any_pieces)
{
    uint8_t out[4096], in[8192];
    size_t n = 0, answers = 0, synthetic = 0;
    ssize_t got;
    int fd;

    world_start(policy, names);
    fd = tcp_client();
    n += add_framed(out + n, "api.example.com", DNS_A);
    n += add_framed(out + n, "nobody.example.net", DNS_A);
    n += add_framed(out + n, "aPi.example.com", DNS_AAAA);
    n += add_framed(out + n, "db.example.com", DNS_A);
    for (size_t i = 0; i < n; i++) {
        CHECK(send(fd, out + i, 1, 0) == 1);
        if (i % 7 == 0)
            world_run(NS_PER_MS);
    }
    n = add_framed(out, "tool.example.com", DNS_A);
    CHECK(send(fd, out, n, 0) == (ssize_t)n && shutdown(fd, SHUT_WR) == 0); /* still answered */
    world_run(200 * NS_PER_MS);
    got = drain(fd, in, sizeof in);
    for (ssize_t at = 0; at + 2 < got;) {
        size_t size = (size_t)in[at] << 8 | in[at + 1];
        struct reply r = read_reply(in + at + 2, size);

        answers++;
        synthetic += r.answers == 1 && fake_addresses_is_synthetic(&r.address);
        at += (ssize_t)(2 + size);
    }
    CHECK_INT(answers, 5);
    CHECK_INT(synthetic, 4);
    CHECK_INT(drain(fd, in, sizeof in), -1); /* and closed */
    CHECK_INT(world.server.asked, 6);
    close(fd);
    world_stop();
}

TEST(frames_that_are_none_end_the_connection)
{
    static const uint8_t heads[][2] = { { 0, 0 }, { 0xff, 0xff }, { 4, 1 } };
    uint8_t in[512];

    world_start(policy, names);
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        int fd = tcp_client();

        CHECK(send(fd, heads[i], 2, 0) == 2);
        world_run(50 * NS_PER_MS);
        CHECK_INT(drain(fd, in, sizeof in), -1);
        close(fd);
    }
    world_stop();
}

TEST(connections_are_bounded_and_do_not_block_others)
{
    int fd[EGRESS_DNS_CONNECTIONS_MAX], more;
    uint8_t in[512];

    world_start(policy, names);
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        fd[i] = tcp_client();
        world_run(2 * NS_PER_MS);
    }
    more = tcp_client();
    world_run(50 * NS_PER_MS);
    CHECK_INT(drain(more, in, sizeof in), -1);
    CHECK_INT(drain(fd[0], in, sizeof in), 0);
    CHECK_INT(ask("api.example.com", DNS_A).answers, 1);
    close(fd[0]);
    world_run(50 * NS_PER_MS);
    close(more);
    more = tcp_client();
    world_run(50 * NS_PER_MS);
    CHECK_INT(drain(more, in, sizeof in), 0);
    for (size_t i = 1; i < COUNT_OF(fd); i++)
        close(fd[i]);
    close(more);
    world_stop();
}

/* It asks and asks and reads nothing: its questions wait, memory does not grow, others are
 * served. */
TEST(a_client_that_never_reads)
{
    uint8_t out[512];
    size_t n, sent = 0;
    ssize_t r = 0;
    int fd;

    world_start(policy, names);
    fd = tcp_client();
    CHECK_INT(ask("api.example.com", DNS_A).answers, 1);
    n = add_framed(out, "api.example.com", DNS_A);
    for (int idle = 0; idle < 20 && sent < 64u << 20; r < 0 ? idle++ : (idle = 0)) {
        r = send(fd, out, n, MSG_DONTWAIT);
        if (r > 0 && (size_t)r < n)
            break; /* the pipe between us is full */
        sent += r > 0 ? (size_t)r : 0;
        if (r < 0)
            world_run(5 * NS_PER_MS);
    }
    CHECK(sent > 0 && sent < 64u << 20);
    CHECK_INT(ask("db.example.com", DNS_A).answers, 1);
    close(fd);
    world_run(20 * NS_PER_MS);
    world_stop();
}
