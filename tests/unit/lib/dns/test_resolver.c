/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/resolver.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "serving.h"

static struct loop loop;
static struct dns_resolver resolver;
static struct dns_lookup lookup;
static struct serving server, second;
static struct err e;
static int done;
static char text[ADDRESS_TEXT_MAX];

static void on_done(struct dns_lookup *l)
{
    CHECK(l == &lookup);
    done++;
    loop_stop(&loop);
}

static void on_done_alone(struct dns_lookup *l)
{
    CHECK(l->outcome == DNS_LOOKUP_FOUND);
    loop_stop(&loop);
}

static void set_up(serving_fn *script)
{
    CHECK_OK(loop_init(&loop, &e), e);
    serving_start(&server, &loop, script);
    CHECK_OK(dns_resolver_init(&resolver, &loop, &server.at, 1, &e), e);
    CHECK_INT(resolver.timeout, 2 * NS_PER_S);
    CHECK_INT(resolver.attempts, 2);
}

static void run(void)
{
    CHECK_OK(dns_lookup_start(&resolver, &lookup, STR("api.example.com"), on_done, &e), e);
    CHECK_INT(done, 0);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(done, 1);
}

static void tear_down(void)
{
    dns_resolver_done(&resolver);
    serving_stop(&server);
    if (second.loop)
        serving_stop(&second);
    loop_done(&loop);
}

/* The same before and after: no descriptor was lost. */
static int lowest_free_fd(void)
{
    AUTO_CLOSE int fd = dup(0);

    return fd + 0; /* its number, not the descriptor */
}

/* A lookup with this server ends so. */
static void check(serving_fn *script, int64_t timeout, enum dns_outcome outcome)
{
    int free_fd = lowest_free_fd();

    set_up(script);
    resolver.timeout = timeout;
    run();
    CHECK_STR(str_from(dns_outcome_name(lookup.outcome)), dns_outcome_name(outcome));
    if (outcome != DNS_LOOKUP_FOUND)
        CHECK(lookup.n == 0 && lookup.ttl == 0);
    tear_down();
    CHECK_INT(lowest_free_fd(), free_fd);
}

#define QUICK (100 * NS_PER_MS)

static void good(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, DNS_NOERROR);
}

TEST(both_families)
{
    check(good, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 2);
    CHECK_STR(address_text(&lookup.addresses[0], text), "192.0.2.1");
    CHECK_STR(address_text(&lookup.addresses[1], text), "2001:db8::1");
    CHECK_INT(lookup.ttl, 30);
    CHECK_INT(server.asked, 2); /* one question a family */
}

static void nxdomain(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, DNS_NXDOMAIN);
}

static void no_data(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];

    serving_send(s, out, dns_build_answer(q, DNS_NOERROR, NULL, 0, 0, out, sizeof out));
}

static void servfail(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, DNS_SERVFAIL);
}

static void refused(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, DNS_REFUSED);
}

static void silence(struct serving *s, const struct dns_query *q)
{
}

TEST(no_such_name)
{
    check(nxdomain, 2 * NS_PER_S, DNS_LOOKUP_NXDOMAIN);
    CHECK_INT(server.asked, 2); /* that is final */
}

TEST(no_addresses)
{
    check(no_data, 2 * NS_PER_S, DNS_LOOKUP_NODATA);
}

TEST(a_server_that_fails_is_asked_again)
{
    check(servfail, 2 * NS_PER_S, DNS_LOOKUP_SERVFAIL);
    CHECK(server.asked >= 2 && server.asked <= 4);
}

TEST(a_server_that_refuses)
{
    check(refused, 2 * NS_PER_S, DNS_LOOKUP_SERVFAIL);
}

TEST(a_server_that_is_silent)
{
    check(silence, QUICK, DNS_LOOKUP_TIMEOUT);
    CHECK_INT(server.asked, 4); /* two attempts a family */
}

/* --- One family only --- */

static void only_v4(struct serving *s, const struct dns_query *q)
{
    if (q->question.type == DNS_A)
        good(s, q);
    else
        no_data(s, q);
}

static void v6_fails(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, q->question.type == DNS_A ? DNS_NOERROR : DNS_SERVFAIL);
}

static void v6_silent(struct serving *s, const struct dns_query *q)
{
    if (q->question.type == DNS_A)
        good(s, q);
}

static void v6_is_said_not_to_exist(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, q->question.type == DNS_A ? DNS_NOERROR : DNS_NXDOMAIN);
}

TEST(a_family_without_addresses)
{
    check(only_v4, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 1);
}

static void v6_refused(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, q->question.type == DNS_A ? DNS_NOERROR : DNS_REFUSED);
}

static void v4_none_v6_fails(struct serving *s, const struct dns_query *q)
{
    if (q->question.type == DNS_A)
        no_data(s, q);
    else
        servfail(s, q);
}

TEST(a_family_that_fails_has_none_if_the_other_is_good)
{
    check(v6_fails, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK(lookup.n == 1 && !lookup.addresses[0].v6);
    done = 0;
    check(v6_refused, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 1);
    done = 0;
    check(v4_none_v6_fails, 2 * NS_PER_S, DNS_LOOKUP_SERVFAIL);
}

TEST(a_family_that_is_silent_has_none_if_the_other_is_good)
{
    check(v6_silent, QUICK, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 1);
    CHECK_INT(server.asked, 2); /* not again: nobody waits for it any longer */
}

TEST(a_family_that_is_said_not_to_exist_has_none)
{
    check(v6_is_said_not_to_exist, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 1);
}

/* --- Forgeries --- */

static void send_changed(struct serving *s, const struct dns_query *q, size_t at, uint8_t by)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = serving_make(q, out);

    out[at] ^= by;
    out[n - 1] = 66; /* the forger's address */
    serving_send(s, out, n);
}

static void forged_id_first(struct serving *s, const struct dns_query *q)
{
    send_changed(s, q, 0, 1);
    send_changed(s, q, 1, 0x80);
    good(s, q);
}

static void forged_question_first(struct serving *s, const struct dns_query *q)
{
    send_changed(s, q, 13, 1);      /* another name */
    send_changed(s, q, 12 + 18, 1); /* another type */
    serving_send(s, "x", 1);
    good(s, q);
}

static void forged_only(struct serving *s, const struct dns_query *q)
{
    send_changed(s, q, 0, 1);
    send_changed(s, q, 13, 1);
}

TEST(a_wrong_id_is_passed_over)
{
    check(forged_id_first, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_STR(address_text(&lookup.addresses[0], text), "192.0.2.1");
}

TEST(a_wrong_question_is_passed_over)
{
    check(forged_question_first, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_STR(address_text(&lookup.addresses[0], text), "192.0.2.1");
}

TEST(forgeries_alone_are_silence)
{
    check(forged_only, QUICK, DNS_LOOKUP_TIMEOUT);
}

static void another_names_address(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = serving_make(q, out);

    out[12 + 21 + 1] += 4; /* the owner: example.com */
    serving_send(s, out, n);
}

TEST(addresses_of_other_names_are_none)
{
    check(another_names_address, 2 * NS_PER_S, DNS_LOOKUP_NODATA);
}

/* --- Malformed --- */

static void loop_of_pointers(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = serving_make(q, out);

    out[12 + 21 + 1] = 12 + 21; /* the owner's name is the owner's name */
    serving_send(s, out, n);
}

static void wrong_length(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = serving_make(q, out);

    out[12 + 21 + 11]--;
    serving_send(s, out, n);
}

static void huge_datagram(struct serving *s, const struct dns_query *q)
{
    static uint8_t out[60000];

    serving_make(q, out);
    serving_send(s, out, sizeof out);
}

TEST(malformed_answers)
{
    done = 0;
    check(loop_of_pointers, 2 * NS_PER_S, DNS_LOOKUP_UNUSABLE);
    done = 0;
    check(wrong_length, 2 * NS_PER_S, DNS_LOOKUP_UNUSABLE);
    done = 0;
    check(huge_datagram, 2 * NS_PER_S, DNS_LOOKUP_UNUSABLE);
}

/* --- TCP --- */

static bool cut_short(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n;

    if (s->is_tcp)
        return false;
    n = serving_make(q, out);
    out[2] |= 2;
    serving_send(s, out, n);
    return true;
}

static void then_tcp(struct serving *s, const struct dns_query *q)
{
    if (!cut_short(s, q))
        good(s, q);
}

static void then_tcp_in_pieces(struct serving *s, const struct dns_query *q)
{
    uint8_t out[2 + DNS_UDP_MIN];
    size_t n;

    if (cut_short(s, q))
        return;
    n = serving_make(q, out + 2);
    out[0] = 0;
    out[1] = (uint8_t)n;
    for (size_t i = 0; i < n + 2; i++)
        serving_send_raw(s, out + i, 1);
}

static void then_tcp_truncated(struct serving *s, const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = serving_make(q, out);

    out[2] |= 2;
    serving_send(s, out, n);
}

static void then_tcp_empty(struct serving *s, const struct dns_query *q)
{
    if (!cut_short(s, q))
        serving_send_raw(s, "\0\0", 2);
}

static void then_tcp_wrong_id(struct serving *s, const struct dns_query *q)
{
    if (!cut_short(s, q))
        send_changed(s, q, 0, 1);
}

static void then_tcp_end(struct serving *s, const struct dns_query *q)
{
    if (cut_short(s, q))
        return;
    serving_send_raw(s, "\1\0abc", 5);
    shutdown(s->fd, SHUT_WR);
}

static void then_tcp_full(struct serving *s, const struct dns_query *q)
{
    static uint8_t out[DNS_MESSAGE_MAX];

    if (cut_short(s, q))
        return;
    serving_make(q, out); /* what follows the answer section is not read */
    serving_send(s, out, sizeof out);
}

static void then_tcp_silent(struct serving *s, const struct dns_query *q)
{
    cut_short(s, q);
}

TEST(truncated_answers_are_asked_for_over_tcp)
{
    check(then_tcp, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 2);
    CHECK_INT(server.asked, 2);
    CHECK_INT(server.asked_tcp, 2);
}

TEST(tcp_in_pieces)
{
    check(then_tcp_in_pieces, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
}

TEST(tcp_with_the_longest_message)
{
    check(then_tcp_full, 5 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 2);
}

TEST(tcp_that_goes_wrong)
{
    static serving_fn *const scripts[] = { then_tcp_truncated, then_tcp_empty, then_tcp_wrong_id,
                                           then_tcp_end };

    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        done = 0;
        check(scripts[i], 2 * NS_PER_S,
              scripts[i] == then_tcp_end ? DNS_LOOKUP_SERVFAIL : DNS_LOOKUP_UNUSABLE);
    }
}

TEST(tcp_that_is_silent)
{
    check(then_tcp_silent, QUICK, DNS_LOOKUP_TIMEOUT);
}

/* --- Letters and EDNS --- */

static void in_small_letters(struct serving *s, const struct dns_query *q)
{
    struct dns_query changed = *q;

    for (size_t i = 0; i < changed.wire_n_ - 4; i++)
        if (changed.wire_[i] >= 'A' && changed.wire_[i] <= 'Z')
            changed.wire_[i] |= 0x20;
    if (!s->is_tcp && memcmp(changed.wire_, q->wire_, q->wire_n_) == 0)
        return; /* by chance all are small already: it asks again */
    serving_answer(s, &changed, DNS_NOERROR);
}

TEST(another_case_is_asked_for_over_tcp)
{
    check(in_small_letters, 5 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(lookup.n, 2);
    CHECK_INT(server.asked_tcp, 2);
}

static unsigned with_edns, capitals;

static void look_at_the_question(struct serving *s, const struct dns_query *q)
{
    with_edns += q->has_edns && q->edns_size == DNS_UDP_MAX;
    for (size_t i = 0; i < q->wire_n_ - 4; i++)
        capitals += q->wire_[i] >= 'A' && q->wire_[i] <= 'Z';
    servfail(s, q);
}

TEST(questions_have_edns_and_letters_of_both_cases)
{
    set_up(look_at_the_question);
    resolver.attempts = 16;
    run();
    CHECK_INT(with_edns, server.asked);
    CHECK(capitals > 0 && capitals < server.asked * 13); /* of api.example.com */
    tear_down();
}

static void older_than_edns(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, q->has_edns ? DNS_FORMERR : DNS_NOERROR);
}

static void formerr(struct serving *s, const struct dns_query *q)
{
    serving_answer(s, q, DNS_FORMERR);
}

TEST(a_server_without_edns)
{
    check(older_than_edns, 2 * NS_PER_S, DNS_LOOKUP_FOUND);
    CHECK_INT(server.asked, 4);
    done = 0;
    check(formerr, 2 * NS_PER_S, DNS_LOOKUP_SERVFAIL);
    CHECK(server.asked >= 4 && server.asked <= 8); /* with and without, twice a family at most */
}

/* --- What is kept, and what is shared --- */

static void look_up_again(enum dns_outcome outcome, unsigned asked)
{
    done = 0;
    run();
    CHECK_INT(lookup.outcome, outcome);
    CHECK_INT(server.asked, asked);
}

TEST(what_was_found_is_kept)
{
    set_up(good);
    look_up_again(DNS_LOOKUP_FOUND, 2);
    lookup = (struct dns_lookup){ 0 };
    look_up_again(DNS_LOOKUP_FOUND, 2);
    CHECK_INT(lookup.n, 2);
    CHECK_STR(address_text(&lookup.addresses[1], text), "2001:db8::1");
    CHECK(lookup.ttl <= 30);
    tear_down();
}

TEST(other_servers_are_asked_again)
{
    struct dns_resolver other;
    struct dns_lookup l = { 0 };

    set_up(good);
    look_up_again(DNS_LOOKUP_FOUND, 2);
    CHECK_OK(dns_resolver_init(&other, &loop, &server.at, 1, &e), e);
    CHECK_OK(dns_lookup_start(&other, &l, STR("api.example.com"), on_done_alone, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(server.asked, 4);
    dns_resolver_done(&other);
    tear_down();
}

static void one_address(struct serving *s, const struct dns_query *q)
{
    static const struct address four = { .bytes = { 192, 0, 2, 1 } };
    uint8_t out[DNS_UDP_MIN];

    serving_send(s, out, dns_build_answer(q, DNS_NOERROR, &four, 1, 60, out, sizeof out));
}

TEST(what_is_not_kept_is_asked_again)
{
    static const struct {
        serving_fn *script;
        enum dns_outcome outcome;
    } list[] = {
        { nxdomain, DNS_LOOKUP_NXDOMAIN }, /* without an SOA record */
        { no_data, DNS_LOOKUP_NODATA },
    };

    for (size_t i = 0; i < COUNT_OF(list); i++) {
        set_up(list[i].script);
        look_up_again(list[i].outcome, 2);
        look_up_again(list[i].outcome, 4);
        tear_down();
    }
}

/* NXDOMAIN, with the SOA record of example.com. */
static void nxdomain_for_a_while(struct serving *s, const struct dns_query *q)
{
    static const char soa[] = "\xc0\x10\0\6\0\1\0\0\0\x3c\0\x18\xc0\x10\xc0\x10"
                              "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5";
    struct dns_query plain = *q;
    uint8_t out[DNS_UDP_MIN];
    size_t n;

    plain.has_edns = false;
    n = dns_build_answer(&plain, DNS_NXDOMAIN, NULL, 0, 0, out, sizeof out);
    memcpy(out + n, soa, sizeof soa - 1);
    out[9] = 1; /* authorities */
    serving_send(s, out, n + sizeof soa - 1);
}

TEST(that_there_is_nothing_is_kept)
{
    set_up(nxdomain_for_a_while);
    look_up_again(DNS_LOOKUP_NXDOMAIN, 2);
    CHECK_INT(lookup.ttl, 5);
    look_up_again(DNS_LOOKUP_NXDOMAIN, 2);
    CHECK_INT(lookup.n, 0);
    tear_down();
}

enum { TOGETHER = 5 };
static struct dns_lookup together[TOGETHER], late;

static void on_one_of_many(struct dns_lookup *l)
{
    CHECK_INT(l->outcome, DNS_LOOKUP_FOUND);
    CHECK_INT(l->n, 1);
    if (++done == 1) {
        dns_lookup_cancel(&together[TOGETHER - 1]); /* which would be told, too */
        CHECK_OK(dns_lookup_start(&resolver, &late, STR("b.example"), on_one_of_many, &e), e);
    }
    if (done == TOGETHER)
        loop_stop(&loop);
}

TEST(lookups_of_one_name_share_the_questions)
{
    set_up(one_address);
    for (size_t i = 0; i < TOGETHER; i++)
        CHECK_OK(dns_lookup_start(&resolver, &together[i], STR("b.example"), on_one_of_many, &e),
                 e);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(done, TOGETHER); /* one less, one more: of what is kept */
    CHECK_INT(server.asked, 2);
    tear_down();
}

TEST(one_who_goes_leaves_the_others)
{
    set_up(good);
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(dns_lookup_start(&resolver, &together[i], STR("b.example"), on_done_alone, &e), e);
    dns_lookup_cancel(&together[0]);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(together[1].outcome, DNS_LOOKUP_FOUND);
    CHECK_INT(together[1].n, 2);
    CHECK_INT(server.asked, 2);
    tear_down();
}

TEST(the_end_of_the_resolver_is_the_end_of_what_runs)
{
    int free_fd = lowest_free_fd();

    set_up(silence);
    CHECK_OK(dns_lookup_start(&resolver, &lookup, STR("b.example"), on_done, &e), e);
    dns_resolver_done(&resolver);
    dns_lookup_cancel(&lookup);
    dns_resolver_done(&resolver);
    serving_stop(&server);
    for (int i = 0; i < 5; i++)
        CHECK(loop_run_once(&loop, 0, &e) >= 0);
    loop_done(&loop);
    CHECK_INT(done, 0);
    CHECK_INT(lowest_free_fd(), free_fd);
}

/* --- Several servers --- */

static void with_second(serving_fn *first, serving_fn *then)
{
    struct dns_server both[2];

    set_up(first);
    serving_start(&second, &loop, then);
    both[0] = server.at;
    both[1] = second.at;
    dns_resolver_done(&resolver);
    CHECK_OK(dns_resolver_init(&resolver, &loop, both, 2, &e), e);
    resolver.timeout = QUICK;
}

TEST(the_next_server_answers_for_a_silent_one)
{
    with_second(silence, good);
    run();
    CHECK_INT(lookup.outcome, DNS_LOOKUP_FOUND);
    CHECK_INT(second.asked, 2);
    tear_down();
}

TEST(the_next_server_answers_for_a_failing_one)
{
    with_second(servfail, good);
    run();
    CHECK_INT(lookup.outcome, DNS_LOOKUP_FOUND);
    tear_down();
}

TEST(the_next_server_answers_for_one_that_is_not_there)
{
    with_second(good, good);
    serving_stop(&server); /* its port is closed */
    resolver.timeout = 5 * NS_PER_S;
    run();
    CHECK_INT(lookup.outcome, DNS_LOOKUP_FOUND);
    CHECK_INT(second.asked, 2);
    dns_resolver_done(&resolver);
    serving_stop(&second);
    loop_done(&loop);
}

TEST(ids_and_ports_differ)
{
    unsigned same_ids = 0, same_ports = 0;

    set_up(silence);
    resolver.attempts = 8;
    resolver.timeout = NS_PER_MS;
    run();
    CHECK_INT(server.asked, 16);
    for (size_t i = 1; i < 16; i++) {
        same_ids += server.ids[i] == server.ids[i - 1];
        same_ports += server.ports[i] == server.ports[i - 1];
    }
    CHECK(same_ids < 2 && same_ports < 2);
    tear_down();
}

TEST(nobody_can_be_asked)
{
    static const struct dns_server broadcast = { { .bytes = { 255, 255, 255, 255 } }, 53 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(dns_resolver_init(&resolver, &loop, &broadcast, 1, &e), e);
    run();
    CHECK_INT(lookup.outcome, DNS_LOOKUP_SERVFAIL);
    dns_resolver_done(&resolver);
    loop_done(&loop);
}

/* --- Lifetimes --- */

TEST(cancelled_lookups_are_not_told)
{
    dns_lookup_cancel(&lookup); /* zeroed */
    set_up(good);
    CHECK_OK(dns_lookup_start(&resolver, &lookup, STR("a.example"), on_done, &e), e);
    CHECK_INT(dns_lookup_start(&resolver, &lookup, STR("a.example"), on_done, &e), -ERR_CONFLICT);
    dns_lookup_cancel(&lookup);
    dns_lookup_cancel(&lookup);
    for (int i = 0; i < 10; i++)
        CHECK(loop_run_once(&loop, NS_PER_MS, &e) >= 0);
    CHECK_INT(done, 0);
    run(); /* it can be started again */
    CHECK_INT(lookup.outcome, DNS_LOOKUP_FOUND);
    dns_lookup_cancel(&lookup);
    tear_down();
}

TEST(cancelled_at_any_moment)
{
    int free_fd = lowest_free_fd();

    set_up(then_tcp);
    for (int batches = 0; batches < 16; batches++) {
        const char name[] = { (char)('a' + batches), 0 }; /* not one that is kept */

        done = 0;
        CHECK_OK(dns_lookup_start(&resolver, &lookup, str_from(name), on_done, &e), e);
        for (int i = 0; i < batches; i++)
            CHECK(loop_run_once(&loop, NS_PER_MS, &e) >= 0);
        if (!done)
            dns_lookup_cancel(&lookup);
        for (int i = 0; i < 20; i++) /* lets the server see the end */
            CHECK(loop_run_once(&loop, 0, &e) >= 0);
        serving_stop(&server);
        serving_start(&server, &loop, then_tcp);
        resolver.servers[0] = server.at;
    }
    tear_down();
    CHECK_INT(lowest_free_fd(), free_fd);
}

static int rounds;

static void on_done_again(struct dns_lookup *l)
{
    CHECK_INT(l->outcome, DNS_LOOKUP_FOUND);
    if (++rounds < 3)
        CHECK_OK(dns_lookup_start(&resolver, l, STR("b.example"), on_done_again, &e), e);
    else
        loop_stop(&loop);
}

TEST(started_again_from_done)
{
    set_up(good);
    CHECK_OK(dns_lookup_start(&resolver, &lookup, STR("a.example"), on_done_again, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(rounds, 3);
    tear_down();
}

static void on_done_free(struct dns_lookup *l)
{
    free(l);
    loop_stop(&loop);
}

TEST(freed_from_done)
{
    struct dns_lookup *l = calloc(1, sizeof *l);

    CHECK(l);
    set_up(good);
    CHECK_OK(dns_lookup_start(&resolver, l, STR("a.example"), on_done_free, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    tear_down();
}

TEST(what_cannot_be_started)
{
    static const struct str names[] = { STR(""),     STR("."),   STR("A.example"), STR("a..b"),
                                        STR("a\0b"), STR("a b"), STR("a.") };
    struct dns_server many[DNS_SERVERS_MAX + 1] = { 0 };

    set_up(good);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_INT(dns_lookup_start(&resolver, &lookup, names[i], on_done, &e), -ERR_INVALID);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(dns_resolver_init(&resolver, &loop, many, 0, &e), -ERR_INVALID);
    CHECK_INT(dns_resolver_init(&resolver, &loop, many, COUNT_OF(many), &e), -ERR_INVALID);
    CHECK_STR(str_from(dns_outcome_name((enum dns_outcome)9)), "unknown");
    tear_down();
}
