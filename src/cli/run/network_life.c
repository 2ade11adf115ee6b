/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the private egress worker: one that died or hangs is replaced, with the listeners,
 * the policy and the record of the one before. Meanwhile connections do not hang. */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "cli/run/network_internal.h"
#include "cli/show.h"
#include "lib/ipc/channel.h"
#include "lib/json/reader.h"
#include "lib/proc/spawn.h"

enum {
    DEATHS_MAX = 8,       /* in a row; then the network stays down */
    SILENT_MAX = 5,       /* pings without an answer */
    REFUSED_AT_ONCE = 64, /* before others have their turn */
    TAIL_MAX = 16 << 10,  /* bytes that hold two lines of the record */
    TAIL_MEMORY = 256 << 10,
    DNS_HEAD = 12,
    DNS_MESSAGE_MAX = 4096,
    DNS_SERVFAIL = 2,
};
#define PAUSE_NS     (100 * NS_PER_MS) /* before the second one in a row, then twice as long */
#define PAUSE_MAX_NS (5 * NS_PER_S)
#define PEACE_NS     (60 * NS_PER_S)   /* of a worker after which its death is the first one */
#define GRACE_NS     (500 * NS_PER_MS) /* that connections wait for the next worker */
#define PING_NS      (2 * NS_PER_S)

/* ---- dying ---- */

void network_kill(struct network *n)
{
    drop_fd(&n->sock);
    if (n->pid <= 0)
        return;
    kill(n->pid, SIGKILL);
    spawn_wait(n->pid, &(int){ 0 }, NULL);
    n->pid = 0;
}

void network_lost(struct network *n)
{
    int64_t now = clock_mono(), pause;

    network_kill(n);
    n->deaths = n->ready_ns && now - n->ready_ns >= PEACE_NS ? 1 : n->deaths + 1;
    n->over = n->deaths > DEATHS_MAX;
    pause = n->over || n->deaths < 2 ? 0 : PAUSE_NS << (n->deaths - 2);
    n->restart_ns = n->over ? 0 : now + (pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS);
    n->ready_ns = 0;
    if (!n->down_ns)
        n->down_ns = now;
}

/* ---- the record ---- */

static bool read_digest(struct str hex, unsigned char ret[static WIRE_DIGEST])
{
    static const char digits[] = "0123456789abcdef";

    if (hex.n != 2 * WIRE_DIGEST)
        return false;
    for (size_t i = 0; i < hex.n; i++) {
        const char *at = memchr(digits, hex.p[i], sizeof digits - 1);

        if (!at)
            return false;
        ret[i / 2] = (unsigned char)(ret[i / 2] << 4 | (at - digits));
    }
    return true;
}

/* The position of a line in the chain (engine/egress/chain.h); without one the chain restarts. */
static void read_chain_position(struct str line, struct wire_add *ret)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TAIL_MEMORY);
    const struct json_limits limits = { .bytes = TAIL_MAX, .depth = 8 };
    unsigned char digest[WIRE_DIGEST] = { 0 };
    const struct json *event;
    unsigned long long seq;

    if (json_read(line, limits, &a, &event, NULL) < 0)
        return;
    seq = show_count(event, "unmapped.seq");
    if (!seq || !read_digest(show_string(event, "unmapped.chain"), digest))
        return;
    ret->chain_seq = seq;
    memcpy(ret->chain_digest, digest, sizeof digest);
}

/* A worker that was killed may have left part of a line, by which nothing was allowed. */
void network_resume_record(struct network *n, struct wire_add *ret)
{
    char tail[TAIL_MAX];
    off_t end = n->seen < 0 ? -1 : lseek(n->seen, 0, SEEK_END);
    off_t from = end > TAIL_MAX ? end - TAIL_MAX : 0;
    ssize_t got = end < 0 ? 0 : pread(n->seen, tail, sizeof tail, from);
    size_t whole = got > 0 ? (size_t)got : 0;
    const char *before;

    while (whole && tail[whole - 1] != '\n')
        whole--;
    if (!whole)
        return;
    if (from + (off_t)whole < end && ftruncate(n->audit, from + (off_t)whole) < 0)
        return;
    before = memrchr(tail, '\n', whole - 1);
    before = before ? before + 1 : tail;
    read_chain_position((struct str){ before, (size_t)(tail + whole - 1 - before) }, ret);
}

/* ---- starting again ---- */

static void restart_worker(struct network *n)
{
    struct err e;

    n->restart_ns = 0;
    n->life++;
    n->silent = 0;
    n->ping_ns = clock_mono() + PING_NS;
    if (network_start_worker(n, &e) < 0 || network_send_sandbox(n, &e) < 0)
        network_lost(n);
}

static bool is_silent(struct network *n)
{
    struct wire_head m;

    n->ping_ns = clock_mono() + PING_NS;
    if (n->silent++ == SILENT_MAX)
        return true;
    wire_fill(&m, WIRE_PING, 0, sizeof m);
    ipc_send(n->sock, &m, sizeof m, NULL, 0, NULL);
    return false;
}

bool network_tick(struct network *n)
{
    int64_t now = clock_mono();

    if (n->sock < 0 && n->restart_ns && now >= n->restart_ns)
        restart_worker(n);
    return n->sock >= 0 && now >= n->ping_ns && is_silent(n);
}

int64_t network_due(const struct network *n)
{
    int64_t due = n->sock >= 0 ? n->ping_ns : n->restart_ns, refusing = n->down_ns + GRACE_NS;

    return n->down_ns && clock_mono() < refusing && (!due || refusing < due) ? refusing : due;
}

/* ---- while no worker runs ---- */

void network_poll(const struct network *n, struct pollfd ret[static NETWORK_LISTENERS])
{
    bool refuses = n && n->down_ns && clock_mono() >= n->down_ns + GRACE_NS;

    for (int i = 0; i < NETWORK_LISTENERS; i++)
        ret[i] = (struct pollfd){ .fd = refuses ? n->listeners.fd[i] : -1, .events = POLLIN };
}

/* With a reset: the program fails at once. */
static void refuse_connections(int listener)
{
    const struct linger now = { .l_onoff = 1, .l_linger = 0 };

    for (int i = 0; i < REFUSED_AT_ONCE; i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        int fd = accept4(listener, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            return;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
}

/* Answers a DNS query with SERVFAIL, from the address that was queried (lib/ipc/listeners.h).
 * Messages that are answers themselves are dropped. */
static void refuse_names(int listener)
{
    for (int i = 0; i < REFUSED_AT_ONCE; i++) {
        unsigned char bytes[DNS_MESSAGE_MAX];
        _Alignas(struct cmsghdr) char control[256];
        struct sockaddr_storage from;
        struct iovec piece = { .iov_base = bytes, .iov_len = sizeof bytes };
        struct msghdr m = { .msg_name = &from,
                            .msg_namelen = sizeof from,
                            .msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control };
        ssize_t n = recvmsg(listener, &m, MSG_DONTWAIT);

        if (n < 0)
            return;
        if (n < DNS_HEAD || bytes[2] & 0x80)
            continue;
        bytes[2] |= 0x80;
        bytes[3] = DNS_SERVFAIL;
        piece.iov_len = (size_t)n;
        sendmsg(listener, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void network_refuse(const struct network *n, const struct pollfd seen[static NETWORK_LISTENERS])
{
    for (int i = 0; i < NETWORK_LISTENERS; i++) {
        if (!seen[i].revents || seen[i].fd != n->listeners.fd[i])
            continue;
        if (i == LISTENER_DNS_UDP4 || i == LISTENER_DNS_UDP6)
            refuse_names(seen[i].fd);
        else
            refuse_connections(seen[i].fd);
    }
}
