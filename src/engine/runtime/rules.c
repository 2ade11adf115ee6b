/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stddef.h>

#include "base/own.h"
#include "lib/ipc/listeners.h"

enum { PARTS_MAX = 5, VALUE_MAX = 16, PRIORITY_MANGLE = -150, PRIORITY_FILTER = 0 };
enum { LOG_RATE = 10, LOG_BURST = 20 };

static const char table[] = "sandboxer";

/* A rule is a list of parts: conditions, then an action. */
enum part_kind {
    PART_END,
    PART_FAMILY,    /* value: NFPROTO_… */
    PART_PROTOCOL,  /* value: IPPROTO_… */
    PART_NETWORK,   /* n bytes at this offset of the IP header equal the value */
    PART_TRANSPORT, /* the same for the transport header */
    PART_VERDICT,   /* code */
    PART_RESET,
    PART_CAPTURE,
    PART_LIMIT,
    PART_LOG,
};

struct rule_part {
    enum part_kind kind;
    uint8_t offset, n;
    uint8_t value[VALUE_MAX];
    int code;
};

#define PART(kind_, ...)                                                                           \
    {                                                                                              \
        .kind = PART_##kind_, __VA_ARGS__                                                          \
    }
#define FAMILY(f)       PART(FAMILY, .n = 1, .value = { NFPROTO_##f })
#define PROTOCOL(p)     PART(PROTOCOL, .n = 1, .value = { IPPROTO_##p })
#define TO4(bytes, ...) PART(NETWORK, .offset = 16, .n = bytes, .value = { __VA_ARGS__ })
#define TO_LOOPBACK6    PART(NETWORK, .offset = 24, .n = 16, .value = { [15] = 1 })
#define PORT_AT(at, p)                                                                             \
    PART(TRANSPORT, .offset = at, .n = 2, .value = { (uint8_t)((p) >> 8), (uint8_t)((p)&0xff) })
#define FROM_PORT(p) PORT_AT(0, p)
#define TO_PORT(p)   PORT_AT(2, p)
#define ACCEPT       PART(VERDICT, .code = NF_ACCEPT)
#define RETURN       PART(VERDICT, .code = NFT_RETURN)

static const struct {
    const char *name;
    uint32_t hook;
    int priority;
    uint32_t policy;
} chains[] = {
    { "capture", NF_INET_PRE_ROUTING, PRIORITY_MANGLE, NF_ACCEPT },
    { "guard", NF_INET_LOCAL_OUT, PRIORITY_FILTER, NF_DROP },
};

static const struct rule {
    const char *chain;
    struct rule_part parts[PARTS_MAX];
} rules[] = {
    { "capture", { FAMILY(IPV4), TO4(1, 127), RETURN } },
    { "capture", { FAMILY(IPV6), TO_LOOPBACK6, RETURN } },
    { "capture", { PROTOCOL(TCP), TO_PORT(LISTENERS_DNS_PORT), RETURN } },
    { "capture", { PROTOCOL(TCP), { .kind = PART_CAPTURE } } },
    { "guard",
      { FAMILY(IPV4),
        TO4(4, 127, 0, 0, 1),
        PROTOCOL(TCP),
        TO_PORT(LISTENERS_CAPTURE_PORT),
        { .kind = PART_RESET } } },
    { "guard",
      { FAMILY(IPV6),
        TO_LOOPBACK6,
        PROTOCOL(TCP),
        TO_PORT(LISTENERS_CAPTURE_PORT),
        { .kind = PART_RESET } } },
    { "guard", { FAMILY(IPV4), TO4(1, 127), ACCEPT } },
    { "guard", { FAMILY(IPV6), TO_LOOPBACK6, ACCEPT } },
    { "guard", { PROTOCOL(TCP), ACCEPT } },
    { "guard", { PROTOCOL(UDP), TO_PORT(LISTENERS_DNS_PORT), ACCEPT } },
    { "guard", { PROTOCOL(UDP), FROM_PORT(LISTENERS_DNS_PORT), ACCEPT } },
    { "guard", { { .kind = PART_LIMIT }, { .kind = PART_LOG } } },
};

static void begin_nft_message(struct netlink *m, int type, uint16_t flags)
{
    struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

    netlink_begin(m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
                  (uint16_t)(NLM_F_ACK | NLM_F_CREATE | flags), &head, sizeof head);
}

static void add_batch_message(struct netlink *m, uint16_t type)
{
    struct nfgenmsg head = { .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES) };

    netlink_begin(m, type, 0, &head, sizeof head);
}

/* Opens an expression, a name and its attributes; close_expression() closes it. */
static void open_expression(struct netlink *m, const char *name)
{
    netlink_open(m, NFTA_LIST_ELEM);
    netlink_add_text(m, NFTA_EXPR_NAME, name);
    netlink_open(m, NFTA_EXPR_DATA);
}

static void close_expression(struct netlink *m)
{
    netlink_close(m);
    netlink_close(m);
}

static void write_nft_data(struct netlink *m, uint16_t attribute, const void *value, size_t n)
{
    netlink_open(m, attribute);
    netlink_add(m, NFTA_DATA_VALUE, value, n);
    netlink_close(m);
}

static void write_compare(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "cmp");
    netlink_add_be32(m, NFTA_CMP_SREG, NFT_REG_1);
    netlink_add_be32(m, NFTA_CMP_OP, NFT_CMP_EQ);
    write_nft_data(m, NFTA_CMP_DATA, p->value, p->n);
    close_expression(m);
}

static void write_meta_match(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "meta");
    netlink_add_be32(m, NFTA_META_KEY,
                     p->kind == PART_FAMILY ? NFT_META_NFPROTO : NFT_META_L4PROTO);
    netlink_add_be32(m, NFTA_META_DREG, NFT_REG_1);
    close_expression(m);
    write_compare(m, p);
}

static void write_payload_match(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "payload");
    netlink_add_be32(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
    netlink_add_be32(m, NFTA_PAYLOAD_BASE,
                     p->kind == PART_NETWORK ? NFT_PAYLOAD_NETWORK_HEADER
                                             : NFT_PAYLOAD_TRANSPORT_HEADER);
    netlink_add_be32(m, NFTA_PAYLOAD_OFFSET, p->offset);
    netlink_add_be32(m, NFTA_PAYLOAD_LEN, p->n);
    close_expression(m);
    write_compare(m, p);
}

static void write_nft_verdict(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "immediate");
    netlink_add_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    netlink_open(m, NFTA_IMMEDIATE_DATA);
    netlink_open(m, NFTA_DATA_VERDICT);
    netlink_add_be32(m, NFTA_VERDICT_CODE, (uint32_t)p->code);
    netlink_close(m);
    netlink_close(m);
    close_expression(m);
}

static void write_reset(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "reject");
    netlink_add_be32(m, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
    close_expression(m);
}

/* Without an address: the family's address of the interface, which is loopback. */
static void write_capture(struct netlink *m, const struct rule_part *p)
{
    uint16_t port = htons(LISTENERS_CAPTURE_PORT);

    open_expression(m, "immediate");
    netlink_add_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    write_nft_data(m, NFTA_IMMEDIATE_DATA, &port, sizeof port);
    close_expression(m);
    open_expression(m, "tproxy");
    netlink_add_be32(m, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    netlink_add_be32(m, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    close_expression(m);
}

static void write_limit(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "limit");
    netlink_add_be64(m, NFTA_LIMIT_RATE, LOG_RATE);
    netlink_add_be64(m, NFTA_LIMIT_UNIT, 1); /* second */
    netlink_add_be32(m, NFTA_LIMIT_BURST, LOG_BURST);
    netlink_add_be32(m, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    close_expression(m);
}

static void write_log_rule(struct netlink *m, const struct rule_part *p)
{
    open_expression(m, "log");
    netlink_add_be16(m, NFTA_LOG_GROUP, LISTENERS_LOG_GROUP);
    netlink_add_text(m, NFTA_LOG_PREFIX, "egress");
    netlink_add_be32(m, NFTA_LOG_SNAPLEN, LISTENERS_LOG_BYTES);
    close_expression(m);
}

static void (*const writers[])(struct netlink *m, const struct rule_part *p) = {
    [PART_FAMILY] = write_meta_match,     [PART_PROTOCOL] = write_meta_match,
    [PART_NETWORK] = write_payload_match, [PART_TRANSPORT] = write_payload_match,
    [PART_VERDICT] = write_nft_verdict,   [PART_RESET] = write_reset,
    [PART_CAPTURE] = write_capture,       [PART_LIMIT] = write_limit,
    [PART_LOG] = write_log_rule,
};

static void add_rule(struct netlink *m, const struct rule *rule)
{
    begin_nft_message(m, NFT_MSG_NEWRULE, NLM_F_APPEND);
    netlink_add_text(m, NFTA_RULE_TABLE, table);
    netlink_add_text(m, NFTA_RULE_CHAIN, rule->chain);
    netlink_open(m, NFTA_RULE_EXPRESSIONS);
    for (size_t i = 0; i < PARTS_MAX && rule->parts[i].kind != PART_END; i++)
        writers[rule->parts[i].kind](m, &rule->parts[i]);
    netlink_close(m);
}

/* Added before all others, since the next rules exempt loopback. */
static void add_taken(struct netlink *m, bool v6, uint16_t port)
{
    struct rule four = { "capture",
                         { FAMILY(IPV4),
                           TO4(4, 127, 0, 0, 1),
                           PROTOCOL(TCP),
                           TO_PORT(port),
                           { .kind = PART_CAPTURE } } };
    struct rule six = {
        "capture",
        { FAMILY(IPV6), TO_LOOPBACK6, PROTOCOL(TCP), TO_PORT(port), { .kind = PART_CAPTURE } }
    };

    add_rule(m, v6 ? &six : &four);
}

void rules_build(struct netlink *m, const struct listeners_taken *taken)
{
    netlink_init(m);
    add_batch_message(m, NFNL_MSG_BATCH_BEGIN);
    begin_nft_message(m, NFT_MSG_NEWTABLE, 0);
    netlink_add_text(m, NFTA_TABLE_NAME, table);
    for (size_t i = 0; i < COUNT_OF(chains); i++) {
        begin_nft_message(m, NFT_MSG_NEWCHAIN, 0);
        netlink_add_text(m, NFTA_CHAIN_TABLE, table);
        netlink_add_text(m, NFTA_CHAIN_NAME, chains[i].name);
        netlink_add_text(m, NFTA_CHAIN_TYPE, "filter");
        netlink_open(m, NFTA_CHAIN_HOOK);
        netlink_add_be32(m, NFTA_HOOK_HOOKNUM, chains[i].hook);
        netlink_add_be32(m, NFTA_HOOK_PRIORITY, (uint32_t)chains[i].priority);
        netlink_close(m);
        netlink_add_be32(m, NFTA_CHAIN_POLICY, chains[i].policy);
    }
    for (size_t i = 0; taken && i < LISTENERS_TAKEN_MAX && taken->v4[i]; i++)
        add_taken(m, false, taken->v4[i]);
    for (size_t i = 0; taken && i < LISTENERS_TAKEN_MAX && taken->v6[i]; i++)
        add_taken(m, true, taken->v6[i]);
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        add_rule(m, &rules[i]);
    add_batch_message(m, NFNL_MSG_BATCH_END);
}

static int explain_rules_error(int r, struct err *e)
{
    switch (errno) {
    case ENOENT:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return err_set(e, ERR_UNSUPPORTED,
                       "loading the packet rules: this kernel lacks a part of nf_tables; load the "
                       "modules nft_tproxy, nft_reject_inet, nft_limit, nft_log and nfnetlink_log, "
                       "or create the sandbox without egress");
    default:
        return err_wrap(e, r, "loading the packet rules");
    }
}

int rules_load(const struct listeners_taken *taken, struct err *e)
{
    struct netlink m;
    AUTO_CLOSE int sock = -1;
    int r = netlink_socket(NETLINK_NETFILTER, &sock, e);

    if (r < 0)
        return explain_rules_error(r, e);
    rules_build(&m, taken);
    r = netlink_talk(sock, &m, e);
    return r == -(int)ERR_SYS ? explain_rules_error(r, e) : r;
}
