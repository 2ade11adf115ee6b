#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../box_world.h"
#include "egress/adapters/adapters.h"
#include "egress/mapping.h"
#include "harness/tap.h"

static struct box_world *w;
static int listener;
static uint16_t port;
static struct synthetic pair;

/* api.example.com is allowed on `port`, and policy DNS has answered for it. */
static void start(void)
{
    struct mapped m = { .name = "api.example.com", .n_pinned = 1 };
    struct err e;

    w = world_start(NULL);
    listener = world_listen(&port);
    world_allow(port);
    m.ports.p[0] = port;
    m.ports.n = 1;
    m.pinned[0] = world_address(WORLD_PUBLIC);
    m.generation = w->box->generation;
    m.expires = clock_mono() + 5 * NS_PER_S;
    CHECK_OK(mapping_put(w->box->mapping, &m, clock_mono(), &pair, &e), e);
}

static int capture(const struct address *to, uint16_t to_port)
{
    struct address from = world_address("127.0.0.1");
    int client, ours;

    world_pair(&client, &ours);
    transparent_accept(w->box, ours, &from, 5, to, to_port);
    return client;
}

static void finish(void)
{
    close(listener);
    world_end();
}

static void refused(const struct address *to, uint16_t to_port)
{
    int client = capture(to, to_port);

    CHECK_INT(world_end_of(client), -1);
    close(client);
    CHECK(accept(listener, NULL, NULL) < 0 && errno == EAGAIN);
    CHECK_INT(w->dns.asked, 0);
    CHECK_INT(w->box->n_open, 0);
}

TEST(synthetic_addresses_lead_to_what_was_pinned)
{
    char byte;

    start();
    for (int six = 0; six < 2; six++) {
        int client = capture(six ? &pair.v6 : &pair.v4, port), far = world_accept(listener);

        CHECK(send(client, "x", 1, 0) == 1);
        world_read(far, &byte, 1);
        CHECK(byte == 'x');
        close(client);
        close(far);
    }
    CHECK_INT(w->dns.asked, 0);
    CHECK(world_audited("api.example.com") > 0);
    finish();
}

TEST(other_ports_and_neighbours_are_refused)
{
    struct address next;

    start();
    refused(&pair.v4, (uint16_t)(port + 1));
    next = pair.v4;
    next.bytes[3]++;
    refused(&next, port);
    next = pair.v6;
    next.bytes[15]++;
    refused(&next, port);
    CHECK_INT(w->box->counters.denied, 3);
    CHECK(world_audited("mapping_denied") > 0);
    finish();
}

TEST(an_answer_that_has_expired_is_refused)
{
    struct mapped m;
    struct err e;

    start();
    m = *mapping_find(w->box->mapping, &pair.v4);
    m.expires = clock_mono() - 1;
    CHECK_OK(mapping_put(w->box->mapping, &m, clock_mono(), &pair, &e), e);
    refused(&pair.v4, port);
    finish();
}

TEST(an_answer_of_an_older_policy_is_refused)
{
    start();
    world_allow(port);
    refused(&pair.v4, port);
    finish();
}

TEST(real_addresses_need_an_endpoint_that_declares_them)
{
    struct address real = world_address(WORLD_PUBLIC), door = world_address("127.0.0.1");

    start();
    refused(&real, port);
    refused(&door, LISTENERS_CAPTURE_PORT);
    finish();
}

TEST(the_end_of_the_box_ends_what_is_being_decided)
{
    int client;

    start();
    client = capture(&pair.v4, port);
    world_end();
    CHECK(recv(client, (char[1]){ 0 }, 1, 0) < 0);
    close(client);
    close(listener);
}
