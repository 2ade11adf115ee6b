/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/trie.h"

#include <stdio.h>

#include "harness/tap.h"

TEST(finds_what_was_added)
{
    static char names[1000][8];
    struct trie x = { 0 };
    uint32_t root = trie_node(&x), nodes[1000];
    size_t steps = 0, n;

    CHECK_INT(trie_find(&x, root, TRIE_WORD, STR("a"), &steps), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        nodes[i] = trie_add(&x, root, TRIE_WORD, str_from(names[i]));
        trie_put(&x, nodes[i], names[i]);
    }
    CHECK_INT(trie_add(&x, root, TRIE_WORD, STR("17")), nodes[17]);
    trie_put(&x, nodes[17], names[18]);
    trie_seal(&x);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(trie_find(&x, root, TRIE_WORD, str_from(names[i]), &steps), nodes[i]);
    CHECK_INT(trie_find(&x, root, TRIE_PART, STR("17"), &steps), 0);
    CHECK_INT(trie_find(&x, nodes[17], TRIE_WORD, STR("17"), &steps), 0);
    CHECK(trie_items(&x, nodes[17], &n)[1].what == names[18]);
    CHECK_INT(n, 2);
    trie_items(&x, root, &n);
    CHECK_INT(n, 0);
    trie_done(&x);
}
