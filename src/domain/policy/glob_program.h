/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled form of a glob: a small program whose states are all followed at once. Private to
 * glob*.c. */
#ifndef DOMAIN_POLICY_GLOB_PROGRAM_H
#define DOMAIN_POLICY_GLOB_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "domain/policy/glob.h"

/* One character of a pattern needs at most three operations, "**" a few more. */
enum { GLOB_OPS_MAX = 4 * GLOB_BYTES_MAX, GLOB_WORDS = GLOB_OPS_MAX / 64 };

enum op_kind { OP_CHAR, OP_ANY, OP_PART, OP_CLASS, OP_SPLIT, OP_JUMP, OP_MATCH };

struct glob_op {
    enum op_kind kind;
    uint32_t a, b; /* CHAR: the character; CLASS: first range and count; SPLIT, JUMP: targets */
    bool negated;  /* CLASS */
};

struct glob_range {
    uint32_t lo, hi;
};

struct glob {
    const struct glob_op *ops; /* the last one is the only OP_MATCH */
    size_t n;
    const struct glob_range *ranges;
    uint32_t separator;
    bool parts, wide;
    struct str prefix;
    bool literal;
};

/* The words of a set of states. */
static inline size_t glob_words_(const struct glob *g)
{
    return (g->n + 63) / 64;
}

static inline bool glob_states_have_(const uint64_t *states, size_t i)
{
    return states[i / 64] >> (i % 64) & 1;
}

/* Adds a state and the states that it reaches without a character. */
void glob_states_add_(const struct glob *g, uint64_t *states, size_t at);
/* Adds the states behind a character. */
void glob_states_step_(const struct glob *g, const uint64_t *from, uint32_t c, uint64_t *to);
bool glob_op_takes_(const struct glob *g, const struct glob_op *op, uint32_t c);

#endif
