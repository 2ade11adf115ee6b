/* What the scanner's files share: the state of one scan, and acts. */
#ifndef SCAN_INSIDE_H
#define SCAN_INSIDE_H

#include "base/buf.h"
#include "scan/rules.h"

enum {
    SCAN_ARGS_MAX = 128,   /* of an act; more come as further acts of the same name */
    SCAN_WORD_MAX = 4096,  /* bytes of a word that are compared */
    SCAN_DEPTH_MAX = 24,   /* substitutions in each other, code in strings of code … */
    SCAN_TAINTS = 4096,    /* names whose value is followed; a power of two */
    SCAN_LOOPS_MAX = 8,    /* findings that wait for the end of a loop */
    SCAN_NESTED_MAX = 256, /* texts in strings that are scanned in their turn, of 64 KiB each */
};

struct place {
    uint32_t line, column;
};

/* Bit i: the i-th rule of LOOK_INTO has seen its first half. */
typedef uint64_t flows;

struct act {
    struct str name;
    const struct str *args; /* at most SCAN_ARGS_MAX */
    size_t n;
    uint64_t letters; /* of its options */
    struct place at;
    flows in;     /* what reaches it */
    bool endless; /* in a loop without end */
};

struct scan {
    struct scan_report *report;
    int language; /* IN_… of what is being read */
    unsigned depth, nested;
    const struct place *fixed; /* where the text that is nested in another one stands */
    unsigned counts[SCAN_RULES_MAX];
    unsigned char first[SCAN_RULES_MAX][32]; /* bytes that a name of that rule can begin with */
    unsigned char halves[SCAN_RULES_MAX];    /* LOOK_BOTH: 1 first half seen, 2 second */
    struct place half_at[SCAN_RULES_MAX];
    struct taint {
        uint64_t name;
        flows carries;
    } taints[SCAN_TAINTS];
    struct {
        const struct scan_rule *rule;
        struct place at;
    } waiting[SCAN_LOOPS_MAX]; /* for the loop's end */
    size_t n_waiting;
};

void scan_add(struct scan *s, const struct scan_rule *rule, struct place at);
void scan_add_special(struct scan *s, enum scan_special what, struct place at);

/* Compares an act with all rules; what it yields. */
flows scan_act(struct scan *s, const struct act *a);

/* The loop without end is over: it was a calm one, or what waited is reported. */
void scan_loop_end(struct scan *s, bool calm);

/* What a name's value carries. */
flows scan_carried(const struct scan *s, struct str name);
void scan_carry(struct scan *s, struct str name, flows what);

/* Each reads a text of its language; what its output carries. */
flows scan_shell(struct scan *s, struct str text);
void scan_code(struct scan *s, struct str text);

/* A text that code of this language is made from, at that place. */
flows scan_nested(struct scan *s, enum scan_language language, struct str text, struct place at);

/* The language that a command of this name reads; SCAN_UNKNOWN: none of ours. */
enum scan_language scan_interpreter(struct str name);

#endif
