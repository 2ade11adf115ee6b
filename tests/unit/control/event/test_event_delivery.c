/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/event/event_delivery.h"
#include "control/plane/plane.h"
#include "unit/control/fixture.h"
#include "lib/json/reader.h"

/* --- a hub: a process that accepts events and gives the configured answers --- */

enum { TAKEN_MAX = 4096, BODY_MAX = 8192 };

/* Shared with the hub's process. */
static struct hub {
    int status;          /* of its answers */
    char refuse[ID_MAX]; /* events of this sandbox get 422 */
    char header[64];     /* sent along with the answer */
    int requests, with_token, typed;
    int taken; /* answered with 2xx, in this order: */
    int64_t seq[TAKEN_MAX];
    char subject[TAKEN_MAX][ID_MAX];
    char last[BODY_MAX];
} * hub;

static pid_t hub_pid;
static int hub_port;

static size_t read_request(int fd, char *text, size_t cap)
{
    size_t n = 0, want = cap;

    while (n < want && n < cap - 1) {
        ssize_t got = read(fd, text + n, cap - 1 - n);
        char *end, *length;

        if (got <= 0)
            return 0;
        n += (size_t)got;
        text[n] = 0;
        end = strstr(text, "\r\n\r\n");
        length = strcasestr(text, "content-length:");
        if (end && length)
            want = (size_t)(end + 4 - text) + strtoul(length + 15, NULL, 10);
    }
    return n;
}

static int take(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n") + 4;
    const char *subject = strstr(body, "\"subject\":\""), *id = strstr(body, "\"id\":\"");
    int at = hub->taken;

    hub->requests++;
    hub->with_token += strstr(text, "Authorization: Bearer hush\r\n") != NULL;
    hub->typed += strcasestr(text, "content-type: application/cloudevents+json") != NULL;
    snprintf(hub->last, sizeof hub->last, "%s", body);
    snprintf(hub->subject[at], ID_MAX, "%.24s", subject ? subject + 11 : "");
    hub->seq[at] = id ? strtoll(id + 6, NULL, 10) : -1;
    if (hub->refuse[0] && strcmp(hub->subject[at], hub->refuse) == 0)
        return 422;
    if (hub->status == 204 && at < TAKEN_MAX - 1)
        hub->taken++;
    return hub->status;
}

static void serve(int listener)
{
    static char text[BODY_MAX * 2];

    for (;;) {
        int fd = accept(listener, NULL, NULL);
        char answer[256];
        int n;

        if (fd < 0)
            _exit(1);
        if (read_request(fd, text, sizeof text)) {
            n = snprintf(answer, sizeof answer,
                         "HTTP/1.1 %d x\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n",
                         take(text), hub->header);
            (void)!write(fd, answer, (size_t)n);
        }
        close(fd);
    }
}

static void hub_start(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)hub_port) };
    socklen_t n = sizeof at;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(listener, (struct sockaddr *)&at, n) == 0);
    CHECK(listen(listener, 64) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &n) == 0);
    hub_port = ntohs(at.sin_port);
    hub_pid = fork();
    if (hub_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
    }
    close(listener);
}

static void hub_stop(void)
{
    kill(hub_pid, SIGKILL);
    waitpid(hub_pid, NULL, 0);
}

static void hub_prepare(void)
{
    static char url[64];
    int fd = memfd_create("hub", MFD_CLOEXEC);

    CHECK(fd >= 0 && ftruncate(fd, sizeof *hub) == 0);
    hub = mmap(NULL, sizeof *hub, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(hub != MAP_FAILED);
    hub->status = 204;
    hub_start();
    snprintf(url, sizeof url, "http://127.0.0.1:%d/events", hub_port);
    fix.config.hub.url = url;
    fix.config.hub.timeout = 2 * NS_PER_S;
}

/* --- accepted events --- */

static bool answered;

static void on_answer(struct store_query *q, int r, const struct err *why)
{
    if (r < 0)
        FAIL("asking: %s", why->msg);
    answered = true;
}

static size_t waiting(void)
{
    struct store_query q = { .kind = STORE_OUTBOX };

    arena_init(&q.arena, 64 << 20);
    answered = false;
    CHECK_OK(store_ask(control_store(fix.control), &q, on_answer, &e), e);
    WAIT_FOR(answered);
    arena_done(&q.arena);
    return q.n;
}

static void wait_delivered(void)
{
    while (waiting())
        CHECK_OK(loop_run_once(&fix.loop, 50 * NS_PER_MS, &e), e);
}

/* Every event of each sandbox, once and in order. */
static void check_order(void)
{
    for (int i = 0; i < hub->taken; i++)
        for (int k = i + 1; k < hub->taken; k++)
            if (strcmp(hub->subject[i], hub->subject[k]) == 0)
                CHECK(hub->seq[i] < hub->seq[k]);
}

static int taken_of(const char *id)
{
    int n = 0;

    for (int i = 0; i < hub->taken; i++)
        n += strcmp(hub->subject[i], id) == 0;
    return n;
}

/* An event without a sandbox. */
static bool published;

static void on_published(struct store_txn *t, int r, const struct err *why)
{
    struct event_record v = { .seq = t->first_seq, .type = "host.added", .from = -1, .to = -1 };

    if (r < 0)
        FAIL("publishing: %s", why->msg);
    control_publish(fix.control, &v);
    published = true;
}

static void publish(void)
{
    struct event_record v = { .type = "host.added", .from = -1, .to = -1 };
    struct store_txn t;

    published = false;
    store_txn_begin(&t, control_store(fix.control));
    store_add_event(&t, &v);
    store_commit(&t, on_published);
    WAIT_FOR(published);
}

/* --- the tests --- */

TEST(events_come_as_cloudevents_in_order)
{
    struct arena a = ARENA_INIT(1 << 20);
    const struct json *v;
    struct sandbox *s;
    char id[ID_MAX];

    hub_prepare();
    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    destroy(s);
    sandbox_unref(s);
    wait_delivered();
    CHECK_INT(taken_of(id), 5); /* requested, provisioning, ready, destroying, destroyed */
    check_order();
    CHECK_INT(hub->typed, hub->requests);
    CHECK_OK(json_read(str_from(hub->last), (struct json_limits){ 10000, 8, false }, &a, &v, &e),
             e);
    CHECK(strstr(hub->last, "\"specversion\":\"1.0\""));
    CHECK(strstr(hub->last, "\"source\":\"/sandboxer/"));
    CHECK(strstr(hub->last, "\"type\":\"dev.sandboxer.sandbox.destroyed\""));
    CHECK(strstr(hub->last, "\"datacontenttype\":\"application/json\""));
    CHECK(strstr(hub->last, "\"data\":{\"seq\":"));
    CHECK(strstr(hub->last, "\"from\":\"destroying\",\"to\":\"destroyed\""));
    publish();
    wait_delivered();
    CHECK(strstr(hub->last, "\"type\":\"dev.sandboxer.host.added\""));
    CHECK(!strstr(hub->last, "\"subject\""));
    plane_close();
    arena_done(&a);
    hub_stop();
}

TEST(a_hub_that_is_down_delays_nothing_and_loses_nothing)
{
    struct sandbox *s[3];

    hub_prepare();
    hub_stop();
    plane_open();
    for (int i = 0; i < 3; i++)
        s[i] = new_sandbox();
    CHECK_INT(waiting(), 9);
    publish();
    for (int i = 0; i < 3; i++)
        sandbox_unref(s[i]);
    plane_close(); /* and a restart in between */
    plane_open();
    CHECK(waiting() >= 10);
    hub_start();
    wait_delivered();
    CHECK(hub->taken >= 10);
    check_order();
    plane_close();
    hub_stop();
}

TEST(errors_are_tried_again)
{
    struct sandbox *s;

    hub_prepare();
    hub->status = 500;
    plane_open();
    s = new_sandbox();
    WAIT_FOR(hub->requests >= 2);
    CHECK_INT(waiting(), 3);
    hub->status = 429;
    snprintf(hub->header, sizeof hub->header, "Retry-After: 0\r\n");
    WAIT_FOR(hub->requests >= 3);
    CHECK_INT(waiting(), 3);
    hub->status = 204;
    wait_delivered();
    CHECK_INT(hub->taken, 3);
    check_order();
    sandbox_unref(s);
    plane_close();
    hub_stop();
}

TEST(a_sandbox_whose_event_is_refused_holds_up_no_other)
{
    struct sandbox *bad, *good;

    hub_prepare();
    plane_open();
    hub->status = 500;
    bad = new_sandbox();
    snprintf(hub->refuse, sizeof hub->refuse, "%s", id_of(bad));
    hub->status = 204;
    for (int i = 0; i < 20; i++) {
        good = new_sandbox();
        while (taken_of(id_of(good)) < 3)
            CHECK_OK(loop_run_once(&fix.loop, 50 * NS_PER_MS, &e), e);
        sandbox_unref(good);
    }
    CHECK_INT(taken_of(id_of(bad)), 0);
    hub->refuse[0] = 0;
    wait_delivered();
    CHECK_INT(taken_of(id_of(bad)), 3);
    check_order();
    sandbox_unref(bad);
    plane_close();
    hub_stop();
}

TEST(a_hub_that_comes_and_goes_gets_everything_in_the_end)
{
    struct sandbox *s;

    hub_prepare();
    plane_open();
    for (int i = 0; i < 12; i++) {
        if (i % 4 == 1)
            hub_stop();
        if (i % 4 == 3)
            hub_start();
        s = new_sandbox();
        destroy(s);
        sandbox_unref(s);
    }
    wait_delivered();
    CHECK(hub->taken >= 12 * 5);
    plane_close();
    hub_stop();
}

static char headers_path[128];

/* A plane with a hub and a file of headers. */
static void open_with_headers(const char *text)
{
    hub_prepare();
    plane_open();
    plane_close();
    snprintf(headers_path, sizeof headers_path, "%s/headers", fix.scratch.path);
    make_file(fix.scratch.dir, "headers", text);
    fix.config.hub.headers_file = headers_path;
    plane_open();
}

TEST(headers_of_the_file_are_sent_and_new_ones_after_a_reload)
{
    struct sandbox *s;

    open_with_headers("# the hub's\nAuthorization: Bearer old\n");
    s = new_sandbox();
    wait_delivered();
    CHECK_INT(hub->with_token, 0);
    CHECK(shell("printf 'X-Other: 1\\nAuthorization: Bearer hush\\n' > %s", headers_path));
    control_reload_hub(fix.control);
    destroy(s);
    sandbox_unref(s);
    wait_delivered();
    CHECK_INT(hub->with_token, 2);
    plane_close();
    hub_stop();
}

TEST(a_reload_that_fails_leaves_the_headers_as_they_are)
{
    struct sandbox *s;

    open_with_headers("Authorization: Bearer hush\n");
    CHECK(shell("echo nonsense > %s", headers_path));
    control_reload_hub(fix.control);
    CHECK(shell("rm %s", headers_path));
    control_reload_hub(fix.control);
    s = new_sandbox();
    wait_delivered();
    CHECK(hub->with_token > 0);
    sandbox_unref(s);
    plane_close();
    hub_stop();
}

static const char *handed_over;

static int hand_over(void *user, int *ret, struct err *why)
{
    *ret = open(handed_over, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(why, "opening %s", handed_over) : 0;
}

TEST(headers_that_are_none_are_refused_at_the_start)
{
    struct control c = { .config = &fix.config, .supervisor.headers = hand_over };

    fix.config.hub.url = "http://127.0.0.1:1/";
    fix.config.hub.headers_file = "/as/the/warden/knows";
    handed_over = "/etc/passwd/no";
    CHECK_INT(event_delivery_open(&c, &e), -ERR_SYS);
    handed_over = "/dev/zero";
    CHECK_INT(event_delivery_open(&c, &e), -ERR_TOO_BIG);
    handed_over = "/proc/self/comm"; /* a word */
    CHECK_INT(event_delivery_open(&c, &e), -ERR_INVALID);
}

TEST(without_a_hub_nothing_is_kept_for_one)
{
    struct sandbox *s;

    plane_open();
    s = new_sandbox();
    CHECK_INT(waiting(), 0);
    sandbox_unref(s);
    plane_close();
}
