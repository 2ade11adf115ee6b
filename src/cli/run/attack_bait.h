/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the host that the attack suite tries to reach from inside a sandbox, and the facts
 * that name them. They are made for one run, in a directory of their own, and removed with it. */
#ifndef CLI_RUN_ATTACK_BAIT_H
#define CLI_RUN_ATTACK_BAIT_H

#include "base/err.h"

enum { BAIT_FACTS_MAX = 32, BAIT_FACT_MAX = 1024 };

struct attack_bait {
    char dir[64];     /* holds the program and the file to attack: mounted read-only */
    char scratch[64]; /* holds the socket and the file of the host: never mounted */
    int tcp, abstract, named, segment;
    char facts[BAIT_FACTS_MAX][BAIT_FACT_MAX]; /* NAME=VALUE */
    size_t n_facts;
    char
        system_files[BAIT_FACT_MAX]; /* … for a sandbox that shares no inode with the host; or "" */
};

#define ATTACK_BAIT_NONE                                                                           \
    ((struct attack_bait){ .tcp = -1, .abstract = -1, .named = -1, .segment = -1 })

/* Copies `program`, the attack suite, into dir. On failure the bait is still to be removed. */
int attack_bait_lay(struct attack_bait *b, const char *program, struct err *e);
void attack_bait_remove(struct attack_bait *b);

/* Whether the file that attacks aim at is as it was. */
bool attack_bait_unharmed(const struct attack_bait *b);

#endif
