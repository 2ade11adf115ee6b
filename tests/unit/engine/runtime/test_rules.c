/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/rules.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>

#include "harness/tap.h"

/* What nft makes of the rules is seen in tests/sandbox; here, that they are one transaction. */
TEST(the_rules_are_one_batch)
{
    enum { NFT = NFNL_SUBSYS_NFTABLES << 8 };
    static struct netlink m;
    struct nlmsghdr h;
    int tables = 0, chains = 0, rules = 0;

    struct listeners_taken taken = { 0 };

    for (uint16_t port = 0; port < LISTENERS_TAKEN_MAX + 1; port++) {
        listeners_take_port(&taken, false, (uint16_t)(8000 + port)); /* the last has no room */
        listeners_take_port(&taken, true, (uint16_t)(8000 + port));
    }
    rules_build(&m, &taken);
    CHECK(!m.broken && m.depth == 0);
    memcpy(&h, m.bytes, sizeof h);
    CHECK_INT(h.nlmsg_type, NFNL_MSG_BATCH_BEGIN);
    for (size_t at = h.nlmsg_len; at < m.message; at += h.nlmsg_len) {
        memcpy(&h, m.bytes + at, sizeof h);
        CHECK(h.nlmsg_flags & NLM_F_ACK); /* each of them is answered */
        tables += h.nlmsg_type == (NFT | NFT_MSG_NEWTABLE);
        chains += h.nlmsg_type == (NFT | NFT_MSG_NEWCHAIN);
        rules += h.nlmsg_type == (NFT | NFT_MSG_NEWRULE);
    }
    memcpy(&h, m.bytes + m.message, sizeof h);
    CHECK_INT(h.nlmsg_type, NFNL_MSG_BATCH_END);
    CHECK_INT(tables, 1);
    CHECK_INT(chains, 2);
    CHECK_INT(rules, 12 + 2 * LISTENERS_TAKEN_MAX);
    CHECK_INT(m.messages, 1 + 1 + 2 + rules + 1);
}
