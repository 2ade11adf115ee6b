/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/netlink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

enum { ANSWERS = 4096 };

void netlink_init(struct netlink *m)
{
    *m = (struct netlink){ 0 };
}

static void set_length(struct netlink *m, size_t at, size_t size)
{
    if (size == sizeof(uint32_t)) {
        uint32_t n = (uint32_t)(m->n - at);

        memcpy(m->bytes + at, &n, sizeof n);
    } else {
        uint16_t n = (uint16_t)(m->n - at);

        memcpy(m->bytes + at, &n, sizeof n);
    }
}

/* Appends bytes, padded with zeros to a multiple of four, and updates the lengths of the enclosing
 * attributes. */
static void append_padded(struct netlink *m, const void *data, size_t n)
{
    size_t padded = NLMSG_ALIGN(n);

    if (m->broken || n > sizeof m->bytes || padded > sizeof m->bytes - m->n) {
        m->broken = true;
        return;
    }
    memcpy(m->bytes + m->n, data, n);
    memset(m->bytes + m->n + n, 0, padded - n);
    m->n += padded;
    set_length(m, m->message, sizeof(uint32_t));
    for (size_t i = 0; i < m->depth; i++)
        set_length(m, m->nests[i], sizeof(uint16_t));
}

void netlink_begin(struct netlink *m, uint16_t type, uint16_t flags, const void *head, size_t n)
{
    struct nlmsghdr h = { .nlmsg_type = type,
                          .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                          .nlmsg_seq = ++m->messages };

    m->broken = m->broken || m->depth;
    m->message = m->n;
    append_padded(m, &h, sizeof h);
    append_padded(m, head, n);
}

void netlink_add(struct netlink *m, uint16_t type, const void *data, size_t n)
{
    struct nlattr a = { .nla_len = (uint16_t)(sizeof a + n), .nla_type = type };

    append_padded(m, &a, sizeof a);
    append_padded(m, data, n);
}

void netlink_add_u32(struct netlink *m, uint16_t type, uint32_t value)
{
    netlink_add(m, type, &value, sizeof value);
}

void netlink_add_text(struct netlink *m, uint16_t type, const char *text)
{
    netlink_add(m, type, text, strlen(text) + 1);
}

void netlink_add_be16(struct netlink *m, uint16_t type, uint16_t value)
{
    value = htons(value);
    netlink_add(m, type, &value, sizeof value);
}

void netlink_add_be32(struct netlink *m, uint16_t type, uint32_t value)
{
    value = htonl(value);
    netlink_add(m, type, &value, sizeof value);
}

void netlink_add_be64(struct netlink *m, uint16_t type, uint64_t value)
{
    value = htobe64(value);
    netlink_add(m, type, &value, sizeof value);
}

void netlink_open(struct netlink *m, uint16_t type)
{
    struct nlattr a = { .nla_len = sizeof a, .nla_type = (uint16_t)(type | NLA_F_NESTED) };

    if (m->depth == NETLINK_DEPTH) {
        m->broken = true;
        return;
    }
    m->nests[m->depth] = m->n;
    append_padded(m, &a, sizeof a);
    m->depth++;
}

void netlink_close(struct netlink *m)
{
    if (m->depth)
        m->depth--;
    else
        m->broken = true;
}

int netlink_socket(int protocol, int *ret, struct err *e)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);

    if (fd < 0)
        return err_sys(e, "opening a netlink socket");
    *ret = fd;
    return 0;
}

/* Reads the answers in one packet. The kernel answers in order, but reports the failure of a batch
 * before the answers to its messages: so the first error counts, and the last answer ends it. */
static void read_answers(const uint8_t *packet, size_t n, uint32_t *last, int *error)
{
    struct nlmsghdr h;
    int code;

    for (size_t at = 0; at <= n && n - at >= sizeof h + sizeof code;) {
        memcpy(&h, packet + at, sizeof h);
        if (h.nlmsg_len < sizeof h + sizeof code || h.nlmsg_len > n - at)
            return;
        if (h.nlmsg_type == NLMSG_ERROR) {
            memcpy(&code, packet + at + sizeof h, sizeof code);
            *last = h.nlmsg_seq;
            if (code != 0 && *error == 0)
                *error = -code;
        }
        at += NLMSG_ALIGN(h.nlmsg_len);
    }
}

/* The number of the last message with NLM_F_ACK. */
static uint32_t last_acked_message(const struct netlink *m)
{
    uint32_t asking = 0;
    struct nlmsghdr h;

    for (size_t at = 0; at < m->n; at += NLMSG_ALIGN(h.nlmsg_len)) {
        memcpy(&h, m->bytes + at, sizeof h);
        if (h.nlmsg_flags & NLM_F_ACK)
            asking = h.nlmsg_seq;
    }
    return asking;
}

int netlink_talk(int sock, const struct netlink *m, struct err *e)
{
    uint8_t answers[ANSWERS];
    uint32_t last = 0;
    int error = 0;
    ssize_t n;

    if (m->broken || m->depth || m->n == 0)
        return err_set(e, ERR_BUG, "a netlink message is too long or incomplete");
    if (send(sock, m->bytes, m->n, 0) != (ssize_t)m->n)
        return err_sys(e, "sending a netlink message");
    /* The kernel processes messages within send(), so all answers have arrived. */
    while ((n = recv(sock, answers, sizeof answers, MSG_DONTWAIT)) > 0)
        read_answers(answers, (size_t)n, &last, &error);
    if (error == 0 && last == last_acked_message(m))
        return 0;
    errno = error ? error : EPROTO;
    return err_sys(e, "netlink request failed");
}
