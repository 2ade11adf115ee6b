/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the scanner's files: the state of one scan, and acts. */
#ifndef ENGINE_SCAN_INTERNAL_H
#define ENGINE_SCAN_INTERNAL_H

#include "engine/scan/rules.h"

enum {
    SCAN_ARGS_MAX = 128,   /* of an act; more come as further acts of the same name */
    SCAN_WORD_MAX = 4096,  /* bytes of a word that are compared */
    SCAN_DEPTH_MAX = 24,   /* substitutions in each other, code in strings of code … */
    SCAN_TAINTS = 4096,    /* names whose value is followed; a power of two */
    SCAN_LOOPS_MAX = 8,    /* findings that wait for the end of a loop */
    SCAN_NESTED_MAX = 256, /* texts in strings that are scanned in their turn, of 64 KiB each */
};

struct scan_place {
    uint32_t line, column;
};

/* Bit i: the i-th rule of MATCH_INTO has seen its first half. */
typedef uint64_t flows;

struct act {
    struct str name;
    const struct str *args; /* at most SCAN_ARGS_MAX */
    size_t n;
    uint64_t letters; /* of its options */
    struct scan_place at;
    flows in;     /* the flows that reach it */
    bool endless; /* in a loop without end */
};

struct scan_state {
    struct scan_report *report;
    int language; /* IN_… of what is being read */
    unsigned depth, nested;
    const struct scan_place *fixed; /* the position of a text that is nested in another one */
    unsigned counts[SCAN_RULES_MAX];
    unsigned char first[SCAN_RULES_MAX][32]; /* bytes that a name of that rule can begin with */
    unsigned char halves[SCAN_RULES_MAX];    /* MATCH_BOTH: 1 first half seen, 2 second */
    struct scan_place half_at[SCAN_RULES_MAX];
    struct taint {
        uint64_t name;
        flows carries;
    } taints[SCAN_TAINTS];
    struct {
        const struct scan_rule *rule;
        struct scan_place at;
    } waiting[SCAN_LOOPS_MAX]; /* for the loop's end */
    size_t n_waiting;
};

void scan_add(struct scan_state *s, const struct scan_rule *rule, struct scan_place at);
void scan_add_special(struct scan_state *s, enum scan_special what, struct scan_place at);

/* Compares an act with all rules; returns the flows of its result. */
flows scan_act(struct scan_state *s, const struct act *a);

/* Ends an endless loop: reports the deferred findings unless something waits in it. */
void scan_loop_end(struct scan_state *s, bool calm);

/* The flows of a name's value. */
flows scan_carried(const struct scan_state *s, struct str name);
void scan_carry(struct scan_state *s, struct str name, flows what);

/* Each reads a text of its language; returns the flows of its output. */
flows scan_shell(struct scan_state *s, struct str text);
void scan_code(struct scan_state *s, struct str text);

/* A text that code of this language is made from, at that place. */
flows scan_nested(struct scan_state *s, enum scan_language language, struct str text,
                  struct scan_place at);

/* The language that a command of this name reads; SCAN_UNKNOWN: none of ours. */
enum scan_language scan_interpreter(struct str name);

#endif
