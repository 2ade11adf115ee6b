/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/audit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "unit/engine/egress/records.h"

static struct loop loop;
static struct records records;
static struct audit *audit;
static struct err e;
static struct egress_intent intent;
static struct egress_decision decision;

static const struct address inside = { .bytes = { 127, 0, 0, 1 } };
static const struct address outside = { .bytes = { 93, 184, 216, 34 } };

static void set_reason(const char *code, const char *text, const char *next)
{
    decision.why = (struct egress_reason){ .code = code, .rule = STR("network_policies.web") };
    snprintf(decision.why.text, sizeof decision.why.text, "%s", text);
    snprintf(decision.why.next, sizeof decision.why.next, "%s", next);
}

static const unsigned char key[CHAIN_SIZE] = "a key of this test's";

/* The written lines form one chain without a gap. */
static void check_chain(struct str text, size_t lines)
{
    AUTO(chain_reader_done) struct chain_reader r = { .key = key };
    char why[192] = "";

    chain_read_text(&r, text);
    chain_end_file(&r);
    chain_end(&r);
    if (r.n_findings)
        chain_explain(&r.findings[0], why, sizeof why);
    CHECK_STR(str_from(why), "");
    CHECK_INT(r.lines, lines);
    CHECK_INT(r.last.seq, lines);
}

static void set_up_on(int fd)
{
    CHECK_OK(loop_init(&loop, &e), e);
    audit = audit_new(&loop, "sbx_test", fd);
    audit_resume(audit, &(struct chain_place){ 0 }, key);
    intent = (struct egress_intent){
        .adapter = EGRESS_BY_CONNECT, .port = 443, .client = inside, .client_port = 40001
    };
    CHECK_OK(host_parse(STR("api.example.com"), false, &intent.host, &e), e);
    decision = (struct egress_decision){ .verdict = EGRESS_ALLOWED, .id = 42, .generation = 3 };
    decision.match.policy = STR("web");
    decision.match.endpoint_name = STR("network_policies.web.endpoints[0]");
    decision.addresses[0] = outside;
    decision.n = 1;
    set_reason("allowed", "It is allowed.", "");
}

static void set_up(void)
{
    set_up_on(records_open(&records));
}

static void tear_down(void)
{
    audit_free(audit);
    loop_done(&loop);
}

static uint64_t ask(enum egress_verdict v, struct str method, struct str path)
{
    const struct egress_action q = { EGRESS_ACTION_HTTP, { { .method = method, .path = path } } };

    return audit_request(audit, &intent, &decision, v, &q, &decision.why);
}

/* A request that is on record at once. */
static bool request(enum egress_verdict v, struct str method, struct str path)
{
    return audit_kept(audit, ask(v, method, path));
}

static void end_turn(void)
{
    CHECK(loop_run_once(&loop, 0, &e) >= 0);
}

static void deny(void)
{
    decision.verdict = EGRESS_DENIED;
    set_reason("policy_denied", "It is not allowed.", "Add an endpoint.");
    audit_deny(audit, &intent, &decision);
}

static void run_for(int64_t ns)
{
    int64_t until = clock_mono() + ns;

    for (int64_t left; (left = until - clock_mono()) > 0;)
        CHECK(loop_run_once(&loop, left, &e) >= 0);
}

/* --- The shape of every event --- */

static void set_who(void)
{
    static char ancestors[1][EGRESS_PATH_MAX] = { "/bin/bash" };

    decision.who = (struct egress_who){
        .known = true, .pid = 7, .uid = 1000, .ancestors = ancestors, .n_ancestors = 1
    };
    snprintf(decision.who.binary, sizeof decision.who.binary, "/usr/bin/curl");
    memset(decision.who.hash, 'a', 64);
}

/* Members that OCSF requires: of every event, of its class, and of the objects in it. */
static const char *const of_all[] = {
    "class_uid",
    "class_name",
    "category_uid",
    "category_name",
    "activity_id",
    "activity_name",
    "type_uid",
    "type_name",
    "time",
    "severity_id",
    "severity",
    "metadata.version",
    "metadata.product.name",
    "metadata.product.vendor_name",
    "metadata.product.version",
    "metadata.profiles",
    "status_id",
    "status",
    "unmapped.generation",
};
static const char *const of_network[] = { "src_endpoint.instance_uid",
                                          "src_endpoint.container.uid",
                                          "connection_info.direction_id",
                                          "action_id",
                                          "action",
                                          "disposition_id",
                                          "disposition" };
static const char *const of_http[] = { "http_request.url.path", "http_request.url.hostname",
                                       "http_request.url.port" };
static const char *const of_state[] = { "device.type_id", "device.uid" };

static void demand(const struct json *line, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!record_at(line, paths[i]))
            FAIL("an event of class %lld has no %s", (long long)record_int(line, "class_uid"),
                 paths[i]);
}

static void check_shape(const struct json *line)
{
    int64_t class = record_int(line, "class_uid");

    demand(line, of_all, COUNT_OF(of_all));
    CHECK_INT(record_int(line, "type_uid"), class * 100 + record_int(line, "activity_id"));
    CHECK_INT(record_int(line, "category_uid"), class / 1000);
    CHECK_STR(str_from(record_text(line, "metadata.version")), "1.8.0");
    CHECK_STR(str_from(record_text(line, "metadata.product.name")), "sandboxer");
    CHECK(!record_at(line, "container")); /* of endpoints, not of events */
    if (class == 5019)
        demand(line, of_state, COUNT_OF(of_state));
    else
        demand(line, of_network, COUNT_OF(of_network));
    if (class == 4002)
        demand(line, of_http, COUNT_OF(of_http));
    if (class == 4003)
        CHECK(record_at(line, "query.hostname"));
    if (record_at(line, "actor"))
        CHECK(record_at(line, "actor.process.pid") && record_at(line, "actor.process.file.name") &&
              record_at(line, "actor.process.file.type_id"));
}

/* One of each. */
static void write_all(void)
{
    set_who();
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK(request(EGRESS_ALLOWED, STR("GET"), STR("/v1/x")));
    CHECK(request(EGRESS_AUDITED, STR("PURGE"), STR("/v1/x")));
    audit_close(audit, &intent, &decision, 100, 2000, 3 * NS_PER_S, "client closed");
    audit_policy(audit, 4);
    CHECK(request(EGRESS_DENIED, STR("DELETE"), STR("/v1/x")));
    deny();
    audit_reject(audit, IPPROTO_UDP, &inside, 5000, &outside, 123);
    audit_malformed(audit, EGRESS_BY_FORWARD, "the request has two Host fields");
    CHECK(audit_lookup(audit, &intent, &decision));
}

TEST(every_event_has_what_ocsf_demands)
{
    set_up();
    write_all();
    records_read(&records);
    CHECK_INT(records.n, 10);
    for (size_t i = 0; i < records.n; i++)
        check_shape(records.line[i]);
    CHECK_INT(audit_written(audit), lseek(records.fd, 0, SEEK_END));
    tear_down();
}

TEST(an_allow_says_who_where_and_why)
{
    const struct json *line;

    set_up();
    write_all();
    records_read(&records);
    line = records.line[0];
    CHECK_INT(record_int(line, "class_uid"), 4001);
    CHECK_STR(str_from(record_text(line, "activity_name")), "Open");
    CHECK_STR(str_from(record_text(line, "action")), "Allowed");
    CHECK_STR(str_from(record_text(line, "metadata.correlation_uid")), "42");
    CHECK_STR(str_from(record_text(line, "src_endpoint.container.uid")), "sbx_test");
    CHECK_STR(str_from(record_text(line, "src_endpoint.ip")), "127.0.0.1");
    CHECK_INT(record_int(line, "src_endpoint.port"), 40001);
    CHECK_STR(str_from(record_text(line, "dst_endpoint.hostname")), "api.example.com");
    CHECK_STR(str_from(record_text(line, "dst_endpoint.ip")), "93.184.216.34");
    CHECK_INT(record_int(line, "dst_endpoint.port"), 443);
    CHECK_STR(str_from(record_text(line, "policy.name")), "web");
    CHECK_STR(str_from(record_text(line, "firewall_rule.name")), "network_policies.web");
    CHECK_STR(str_from(record_text(line, "actor.process.file.path")), "/usr/bin/curl");
    CHECK_STR(str_from(record_text(line, "actor.process.user.uid")), "1000");
    CHECK_STR(str_from(record_text(line, "unmapped.adapter")), "connect");
    CHECK_STR(str_from(record_text(line, "unmapped.parent")), "/bin/bash");
    CHECK_INT(record_int(line, "unmapped.generation"), 3);
    tear_down();
}

TEST(the_others_say_what_they_are_about)
{
    set_up();
    write_all();
    records_read(&records);
    CHECK_STR(str_from(record_text(records.line[1], "type_name")), "HTTP Activity: Get");
    CHECK_STR(str_from(record_text(records.line[1], "http_request.url.path")), "/v1/x");
    CHECK_STR(str_from(record_text(records.line[2], "action")), "Observed");
    CHECK_INT(record_int(records.line[2], "activity_id"), 99);
    CHECK(!record_at(records.line[2],
                     "http_request.http_method")); /* one that OCSF has no word for */
    CHECK_STR(str_from(record_text(records.line[2], "unmapped.method")), "PURGE");
    CHECK_STR(str_from(record_text(records.line[1], "http_request.http_method")), "GET");
    CHECK_INT(record_int(records.line[3], "traffic.bytes_out"), 100);
    CHECK_INT(record_int(records.line[3], "duration"), 3000);
    CHECK_STR(str_from(record_text(records.line[3], "status_detail")), "client closed");
    CHECK_INT(record_int(records.line[4], "unmapped.generation"), 4);
    CHECK_STR(str_from(record_text(records.line[5], "action")), "Denied");
    CHECK_STR(str_from(record_text(records.line[6], "unmapped.next")), "Add an endpoint.");
    CHECK_INT(record_int(records.line[7], "connection_info.protocol_num"), IPPROTO_UDP);
    CHECK_STR(str_from(record_text(records.line[7], "disposition")), "Rejected");
    CHECK_STR(str_from(record_text(records.line[7], "dst_endpoint.ip")), "93.184.216.34");
    CHECK_STR(str_from(record_text(records.line[8], "unmapped.adapter")), "forward");
    CHECK_STR(str_from(record_text(records.line[9], "type_name")), "DNS Activity: Query");
    CHECK_STR(str_from(record_text(records.line[9], "query.hostname")), "api.example.com");
    tear_down();
}

/* --- The page --- */

/* Every place in an event that holds a value, as the page writes it. */
static void add_places(const struct json *v, const char *prefix, struct buf *out)
{
    char place[256];

    if (v->type != JSON_OBJECT && v->type != JSON_ARRAY) {
        buf_addf(out, "| `%s` |", prefix);
        return;
    }
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        if (v->type == JSON_ARRAY)
            snprintf(place, sizeof place, "%s[]", prefix);
        else
            snprintf(place, sizeof place, "%s%s" STR_FMT, prefix, *prefix ? "." : "",
                     STR_ARG(m->key));
        add_places(m, place, out);
    }
}

/* Cuts "| `field` |" off a row; returns the rest. */
static struct str cut_row(struct str line)
{
    for (size_t i = 3; i + 1 < line.n; i++)
        if (line.p[i] == '|')
            return (struct str){ line.p, i + 1 };
    return line;
}

static void check_row(struct str line, const struct buf *places, bool *ret_fields)
{
    struct str row;

    *ret_fields |= str_eq(line, STR("| field | meaning |"));
    if (!*ret_fields || !str_starts(line, STR("| `")))
        return;
    row = cut_row(line);
    if (!memmem(places->p, places->n, row.p, row.n))
        FAIL("no event has " STR_FMT, STR_ARG(row));
}

static void read_page(struct buf *out)
{
    AUTO_CLOSE int fd = open(SOURCE_ROOT "/docs/egress-audit.md", O_RDONLY | O_CLOEXEC);
    char piece[4096];
    ssize_t n;

    CHECK(fd >= 0);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        buf_add(out, (struct str){ piece, (size_t)n });
}

/* A place at a time: "| `time` || `class_uid` |…" */
static void check_places(const struct buf *places, const struct buf *page)
{
    struct str rest = buf_str(places);

    while (rest.n > 0) {
        struct str row = cut_row(rest);

        if (!memmem(page->p, page->n, row.p, row.n))
            FAIL("the page has no row " STR_FMT, STR_ARG(row));
        rest = (struct str){ rest.p + row.n, rest.n - row.n };
    }
}

TEST(the_page_says_what_the_events_hold)
{
    AUTO(buf_done) struct buf page = BUF_INIT(1 << 20), places = BUF_INIT(1 << 20);
    struct str rest, line;
    bool fields = false;

    set_up();
    write_all();
    deny(); /* counted */
    tear_down();
    records_read(&records);
    read_page(&page);
    for (size_t i = 0; i < records.n; i++)
        add_places(records.line[i], "", &places);
    check_places(&places, &page);
    records.n = 0;
    for (rest = buf_str(&page); rest.p;) {
        rest = str_cut(rest, '\n', &line);
        check_row(line, &places, &fields);
        if (str_starts(line, STR("    {"))) /* an example; str_cut left its newline behind it */
            records_take(&records, (struct str){ line.p + 4, line.n - 3 });
    }
    CHECK_INT(records.n, 4);
    for (size_t i = 0; i < records.n; i++)
        check_shape(records.line[i]);
}

/* --- Hostile texts --- */

TEST(a_line_is_one_event_whatever_is_in_it)
{
    static const char *const texts[] = {
        "/a\nb\r\n{\"class_uid\":4001}\n",
        "/\"},\"action\":\"Allowed\",\"x\":{\"",
        "/\x1b[31mred\x1b[0m\x07",
        "/\xff\xfe\xc3\x28\xed\xa0\x80",
        "/\xe2\x80\xae"
        "gpj.exe",
        "/\xc2\x9b"
        "31m",
        "/\\u0000\\",
        "/\x7f\x01",
    };

    set_up();
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK(request(EGRESS_ALLOWED, STR("GET\n"), str_from(texts[i])));
    CHECK(request(EGRESS_ALLOWED, STR("G\0T"), STR("/a\0b")));
    records_read(&records); /* looks at the bytes */
    CHECK_INT(records.n, COUNT_OF(texts) + 1);
    for (size_t i = 0; i < records.n; i++)
        CHECK_STR(str_from(record_text(records.line[i], "action")), "Allowed");
    tear_down();
}

static void fill(char *out, size_t cap, char c)
{
    memset(out, c, cap - 1);
    out[cap - 1] = '\0';
}

/* Every text as long as it can be, of bytes that grow when they are written. */
static void check_worst(char c)
{
    static char path[1 << 20];
    static char ancestors[1][EGRESS_PATH_MAX];

    fill(path, sizeof path, c);
    fill(ancestors[0], EGRESS_PATH_MAX, c);
    set_who();
    decision.who.ancestors = ancestors;
    fill(decision.who.binary, EGRESS_PATH_MAX, c);
    fill(decision.who.hash, sizeof decision.who.hash, c);
    fill(intent.host.name, sizeof intent.host.name, c);
    fill(decision.why.text, sizeof decision.why.text, c);
    fill(decision.why.next, sizeof decision.why.next, c);
    decision.why.rule = decision.match.policy = decision.match.endpoint_name =
        (struct str){ path, 4096 };
    decision.why.code = path;
    decision.id = decision.generation = UINT64_MAX;
    CHECK(request(EGRESS_ALLOWED, (struct str){ path, 4096 }, (struct str){ path, sizeof path }));
    CHECK(audit_allow(audit, &intent, &decision));
    audit_close(audit, &intent, &decision, UINT64_MAX, UINT64_MAX, INT64_MAX, path);
}

TEST(the_longest_texts_fit_a_line)
{
    const char worst[] = { 'x', '"', '\\', '\n', '\x01', '\xff', '\0' };

    set_up();
    for (size_t i = 0; i < COUNT_OF(worst); i++)
        check_worst(worst[i]);
    end_turn();
    records_read(&records);
    CHECK_INT(records.n, 3 * COUNT_OF(worst));
    tear_down();
}

/* --- Floods --- */

TEST(equal_denials_are_counted)
{
    set_up();
    for (int i = 0; i < 10000; i++) {
        /* a difference that does not make another kind */
        intent.client_port = (uint16_t)(1024 + i);
        decision.id++;
        deny();
    }
    records_read(&records);
    CHECK_INT(records.n, 1); /* the first at once */
    run_for(1100 * NS_PER_MS);
    records_read(&records);
    CHECK_INT(records.n, 2);
    CHECK_INT(record_int(records.line[1], "count"), 9999);
    CHECK(record_int(records.line[1], "start_time") > 0 &&
          record_int(records.line[1], "start_time") <= record_int(records.line[1], "end_time"));
    deny(); /* repeated: counted, not written at once */
    records_read(&records);
    CHECK_INT(records.n, 2);
    tear_down(); /* writes the rest */
    records_read(&records);
    CHECK_INT(records_count(&records, "policy_denied"), 10001);
    CHECK_INT(records.n, 3);
}

TEST(a_kind_that_paused_is_told_at_once_again)
{
    set_up();
    deny();
    run_for(1100 * NS_PER_MS);
    records_read(&records);
    CHECK_INT(records.n, 1);
    deny();
    records_read(&records);
    CHECK_INT(records.n, 2);
    tear_down();
}

TEST(different_denials_are_bounded_and_none_is_lost)
{
    set_up();
    for (int i = 0; i < 20000; i++) {
        snprintf(intent.host.name, sizeof intent.host.name, "h%d.example.com", i / 2);
        deny();
    }
    records_read(&records);
    CHECK_INT(records.n, AUDIT_KINDS_MAX);
    run_for(1100 * NS_PER_MS);
    records_read(&records);
    CHECK_INT(records.n, 2 * AUDIT_KINDS_MAX + 1);
    CHECK_INT(records_count(&records, "more_denials"), 20000 - 2 * AUDIT_KINDS_MAX);
    CHECK_INT(records_count(&records, NULL), 20000);
    tear_down();
}

TEST(what_differs_is_another_kind)
{
    set_up();
    deny();
    intent.port = 80;
    deny();
    set_who();
    deny();
    intent.adapter = EGRESS_BY_FORWARD;
    deny();
    ask(EGRESS_DENIED, STR("GET"), STR("/a"));
    ask(EGRESS_DENIED, STR("GET"), STR("/b"));
    ask(EGRESS_DENIED, STR("PUT"), STR("/b"));
    audit_malformed(audit, EGRESS_BY_DNS, "one");
    audit_malformed(audit, EGRESS_BY_DNS, "two");
    audit_reject(audit, IPPROTO_UDP, &inside, 1, &outside, 1);
    audit_reject(audit, IPPROTO_SCTP, &inside, 1, &outside, 1);
    audit_reject(audit, IPPROTO_SCTP, &inside, 2, &outside, 1); /* the same */
    records_read(&records);
    CHECK_INT(records.n, 11);
    tear_down();
}

/* --- Descriptors that fail --- */

TEST(what_cannot_be_recorded_is_not_allowed)
{
    set_up_on(open("/dev/full", O_WRONLY | O_CLOEXEC));
    CHECK(!audit_allow(audit, &intent, &decision));
    CHECK(!request(EGRESS_ALLOWED, STR("GET"), STR("/")));
    for (int i = 0; i < 5; i++)
        deny();
    CHECK_INT(audit_written(audit), 0);
    audit_set_fd(audit, records_open(&records)); /* there is room again */
    decision.verdict = EGRESS_ALLOWED;
    CHECK(audit_allow(audit, &intent, &decision));
    run_for(1100 * NS_PER_MS);
    records_read(&records);
    CHECK_INT(records_count(&records, "policy_denied"), 6);
    tear_down();
}

/* A reader that does not read stops traffic, but not the worker; once it reads, traffic
 * continues. */
TEST(a_pipe_that_nobody_reads_allows_nothing_and_stops_nobody)
{
    static char text[1 << 20];
    int fds[2], allowed = 0;
    size_t n = 0;
    ssize_t got;

    CHECK_INT(pipe2(fds, O_CLOEXEC), 0); /* which blocks */
    CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) > 0);
    set_up_on(fds[1]);
    alarm(10);
    while (allowed < 1000 && audit_allow(audit, &intent, &decision))
        allowed++;
    CHECK(allowed > 0 && allowed < 1000);
    CHECK(!request(EGRESS_ALLOWED, STR("GET"), STR("/")));
    CHECK(!audit_allow(audit, &intent, &decision));
    CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
    while ((got = read(fds[0], text + n, 4096)) > 0)
        n += (size_t)got;
    CHECK(audit_allow(audit, &intent, &decision)); /* with the rest of the line that was begun */
    while ((got = read(fds[0], text + n, 4096)) > 0)
        n += (size_t)got;
    alarm(0);
    check_chain((struct str){ text, n }, (size_t)audit_place(audit)->seq);
    tear_down();
    close(fds[0]);
}

static void on_low(void *user)
{
    ++*(int *)user;
}

TEST(what_has_no_room_is_not_allowed)
{
    uint64_t first, line, room;
    int low = 0;

    set_up();
    CHECK(audit_allow(audit, &intent, &decision)); /* the first of a file is longer */
    first = audit_written(audit);
    CHECK(audit_allow(audit, &intent, &decision));
    line = audit_written(audit) - first;
    room = first + 4 * line; /* three more */
    audit_set_room(audit, room, WIRE_LACK_NONE, on_low, &low);
    CHECK(!audit_is_low(audit));
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK_INT(low, 0);
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK_INT(low, 1); /* half of it is used */
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK(!audit_allow(audit, &intent, &decision));
    CHECK_STR(str_from(audit_refusal(audit)->code), "audit_unavailable"); /* more may come */
    CHECK(!request(EGRESS_ALLOWED, STR("GET"), STR("/")));
    CHECK_INT(audit_written(audit), room);
    CHECK_INT(low, 1);
    CHECK(audit_is_low(audit));
    audit_set_room(audit, room + line, WIRE_LACK_NONE, on_low, &low);
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK_INT(low, 2);
    audit_set_room(audit, 0, WIRE_LACK_NONE, NULL, NULL);
    CHECK(audit_allow(audit, &intent, &decision));
    tear_down();
}

static void check_full_log(enum wire_lack lack)
{
    uint64_t allowed;
    int low = 0;

    set_up();
    audit_set_room(audit, AUDIT_RESERVE + 16384, lack, on_low, &low);
    while (audit_allow(audit, &intent, &decision))
        ;
    allowed = audit_written(audit);
    CHECK(allowed > 8192 && allowed <= 16384);
    CHECK_STR(str_from(audit_refusal(audit)->code), "audit_full");
    CHECK(!request(EGRESS_ALLOWED, STR("GET"), STR("/")));
    audit_deny(audit, &intent, &decision); /* the rest is for what does not pass, … */
    CHECK(audit_written(audit) > allowed);
    CHECK(low > 0);
    audit_set_room(audit, 0, WIRE_LACK_NONE, NULL, NULL); /* … and what comes back for all */
    CHECK(audit_allow(audit, &intent, &decision));
    tear_down();
}

TEST(a_full_log_takes_denials_and_no_allows)
{
    check_full_log(WIRE_LACK_BOX);
    check_full_log(WIRE_LACK_OWNER);
}

TEST(nothing_of_a_turn_is_allowed_that_is_not_recorded)
{
    uint64_t first, second;

    set_up_on(open("/dev/full", O_WRONLY | O_CLOEXEC));
    first = ask(EGRESS_ALLOWED, STR("GET"), STR("/a"));
    second = ask(EGRESS_ALLOWED, STR("GET"), STR("/b"));
    end_turn();
    CHECK(!audit_kept(audit, first) && !audit_kept(audit, second));
    audit_set_fd(audit, records_open(&records));
    CHECK(!audit_kept(audit, first));
    CHECK(request(EGRESS_ALLOWED, STR("GET"), STR("/c")));
    tear_down();
}

TEST(without_a_descriptor_all_is_well)
{
    set_up_on(-1);
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK(request(EGRESS_ALLOWED, STR("GET"), STR("/")));
    deny();
    deny();
    tear_down();
    audit_free(NULL);
}

/* A reader that is slow, on a socket that takes parts of lines. */
TEST(lines_are_never_torn)
{
    AUTO(buf_done) struct buf got = BUF_INIT(8 << 20);
    int ends[2], small = 4096, yes = 0, asked = 0;
    char piece[777];
    ssize_t n;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    set_up_on(ends[0]);
    for (; asked < 500; asked++) {
        yes += audit_allow(audit, &intent, &decision);
        if (asked % 2 == 0 && (n = recv(ends[1], piece, sizeof piece, 0)) > 0)
            buf_add(&got, (struct str){ piece, (size_t)n });
    }
    CHECK(yes > 0 && yes < asked);
    for (int last = 0; last < 2; last++) { /* a line that was begun is finished first */
        while ((n = recv(ends[1], piece, sizeof piece, 0)) > 0)
            buf_add(&got, (struct str){ piece, (size_t)n });
        yes += !last && audit_allow(audit, &intent, &decision);
    }
    records_take(&records, buf_str(&got));
    check_chain(buf_str(&got), records.n); /* lines that were lost have no place in it */
    CHECK_INT(audit_place(audit)->seq, records.n);
    CHECK((int)records.n >= yes && (int)records.n <= asked + 1);
    close(ends[1]);
    tear_down();
}

/* A packet is a write. */
TEST(the_lines_of_a_turn_are_one_write)
{
    AUTO(buf_done) struct buf got = BUF_INIT(1 << 20);
    char packet[64 << 10];
    int ends[2];
    ssize_t n;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    set_up_on(ends[0]);
    ask(EGRESS_ALLOWED, STR("GET"), STR("/a"));
    ask(EGRESS_ALLOWED, STR("GET"), STR("/b"));
    audit_close(audit, &intent, &decision, 1, 2, NS_PER_S, "closed");
    CHECK(recv(ends[1], packet, sizeof packet, 0) < 0);
    end_turn();
    n = recv(ends[1], packet, sizeof packet, 0);
    CHECK(n > 0);
    buf_add(&got, (struct str){ packet, (size_t)n });
    records_take(&records, buf_str(&got));
    CHECK_INT(records.n, 3);
    CHECK(recv(ends[1], packet, sizeof packet, 0) < 0);
    close(ends[1]);
    tear_down();
}

/* The same slow reader, and several lines a turn. */
TEST(lines_of_a_turn_are_never_torn)
{
    AUTO(buf_done) struct buf got = BUF_INIT(8 << 20);
    int ends[2], small = 4096, yes = 0, turns = 0;
    char piece[777];
    ssize_t n;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    set_up_on(ends[0]);
    for (; turns < 200; turns++) {
        ask(EGRESS_ALLOWED, STR("GET"), STR("/a"));
        ask(EGRESS_ALLOWED, STR("GET"), STR("/b"));
        yes += request(EGRESS_ALLOWED, STR("GET"), STR("/c"));
        if (turns % 2 == 0 && (n = recv(ends[1], piece, sizeof piece, 0)) > 0)
            buf_add(&got, (struct str){ piece, (size_t)n });
    }
    CHECK(yes > 0 && yes < turns);
    for (int last = 0; last < 2; last++) {
        while ((n = recv(ends[1], piece, sizeof piece, 0)) > 0)
            buf_add(&got, (struct str){ piece, (size_t)n });
        yes += !last && request(EGRESS_ALLOWED, STR("GET"), STR("/c"));
    }
    records_take(&records, buf_str(&got));
    check_chain(buf_str(&got), records.n);
    CHECK_INT(audit_place(audit)->seq, records.n);
    CHECK((int)records.n >= 3 * yes - 2 && (int)records.n <= 3 * turns + 1);
    close(ends[1]);
    tear_down();
}

/* --- The chain --- */

static void read_file(int fd, struct buf *out)
{
    char piece[65536];
    off_t at = 0;
    ssize_t n;

    for (; (n = pread(fd, piece, sizeof piece, at)) > 0; at += n)
        buf_add(out, (struct str){ piece, (size_t)n });
}

static size_t str_count(struct str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

TEST(the_chain_goes_on_in_another_file_and_in_another_worker)
{
    AUTO(buf_done) struct buf all = BUF_INIT(8 << 20);
    struct records files[3];
    struct chain_place last = { 0 };
    struct chain_line line;
    size_t lines = 0;

    set_up_on(records_open(&files[0]));
    write_all();
    audit_set_fd(audit, records_open(&files[1]));
    write_all();
    audit_note_last(audit, &last);
    tear_down();
    CHECK_OK(loop_init(&loop, &e), e);
    audit = audit_new(&loop, "sbx_test", records_open(&files[2]));
    audit_resume(audit, &last, key);
    write_all();
    tear_down();
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(buf_done) struct buf one = BUF_INIT(8 << 20);

        read_file(files[i].fd, &one);
        CHECK(chain_parse((struct str){ one.p, str_find(buf_str(&one), '\n') }, &line));
        CHECK(line.has_prev && line.has_mac);
        lines += line.place.seq == lines + 1 ? str_count(buf_str(&one)) : 0;
        buf_add(&all, buf_str(&one));
        close(files[i].fd);
    }
    check_chain(buf_str(&all), lines);
}

/* A line whose half is in a file that is put aside: its place is given to the next one. */
TEST(half_a_line_that_stays_behind_has_no_place)
{
    AUTO(buf_done) struct buf got = BUF_INIT(8 << 20);
    int ends[2], small = 4096;
    struct records next;
    char piece[4096];
    uint64_t last;
    ssize_t n;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    set_up_on(ends[0]);
    while (audit_allow(audit, &intent, &decision))
        ;
    last = audit_place(audit)->seq;
    audit_set_fd(audit, records_open(&next));
    CHECK(audit_allow(audit, &intent, &decision));
    CHECK_INT(audit_place(audit)->seq, last + 1);
    while ((n = recv(ends[1], piece, sizeof piece, 0)) > 0)
        buf_add(&got, (struct str){ piece, (size_t)n });
    while (got.n && got.p[got.n - 1] != '\n') /* the half */
        got.n--;
    read_file(next.fd, &got);
    check_chain(buf_str(&got), last + 1);
    close(ends[1]);
    close(next.fd);
    tear_down();
}
