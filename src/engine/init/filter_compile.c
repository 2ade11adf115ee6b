/* SPDX-License-Identifier: Apache-2.0 */
/* Build tool: compiles filter_table.h into BPF programs, as a C header on stdout.
 *
 * The cost of a filter is its length: the kernel checks, translates and compiles every instruction
 * at each load. libseccomp compares one number at a time; here neighbouring numbers with the same
 * action are one leaf of a binary search, which needs a sixth of the instructions. libseccomp is
 * used only to translate names to numbers, and to verify the result in test_filter.c. */
#include <linux/filter.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "engine/init/filter_table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument is first");

enum {
    NUMBERS = 1024, /* system calls from here on have the default rule */
    FATES_MAX = 64,
    ODD_MAX = 4, /* at most as many comparisons as the subtree that they save */
    JUMP_MAX = 255,
    REUSE_MAX = JUMP_MAX / 2, /* leaves room for instructions between a jump and its target */
};

#define X32_BIT  UINT32_C(0x40000000)
#define SKIPPED  UINT32_MAX /* written by a tracer to cancel a call; libseccomp spares it too */
#define AT(what) ((uint32_t)offsetof(struct seccomp_data, what))

/* The treatment of a system call: a filter_rule without the name, so that calls can share it. */
struct fate {
    struct filter_test tests[FILTER_TESTS_MAX];
    uint32_t otherwise;
};

struct policy {
    struct fate fates[FATES_MAX]; /* [0] is the default */
    size_t n_fates;
    size_t fate_of[NUMBERS]; /* index into fates */
};

/* Numbers from `first` up to the next leaf. All have one fate except for a few single ones. */
struct leaf {
    uint32_t first;
    size_t fate;
    struct {
        uint32_t number;
        size_t fate;
    } odd[ODD_MAX];
    size_t n_odd;
};

/* Emitted from its end, so that the target of every jump is known. A label is the distance from the
 * end. */
struct program {
    struct sock_filter code[BPF_MAXINSNS];
    size_t n;
    size_t label_of_fate[FATES_MAX]; /* 0: not written yet, for at the end there is a return */
};

static void exit_with_error(const char *what, const char *why)
{
    fprintf(stderr, "filter_compile: %s: %s\n", what, why);
    exit(1);
}

static bool fate_equals(const struct fate *a, const struct fate *b)
{
    for (size_t i = 0; i < FILTER_TESTS_MAX; i++) {
        const struct filter_test *s = &a->tests[i], *t = &b->tests[i];

        if (s->argument != t->argument || s->op != t->op || s->value != t->value ||
            s->action != t->action)
            return false;
    }
    return a->otherwise == b->otherwise;
}

/* The index of a fate; adds it if no call had it yet. */
static size_t policy_fate(struct policy *p, struct fate f)
{
    for (size_t i = 0; i < p->n_fates; i++)
        if (fate_equals(&p->fates[i], &f))
            return i;
    if (p->n_fates == FATES_MAX)
        exit_with_error("FATES_MAX", "too small");
    p->fates[p->n_fates] = f;
    return p->n_fates++;
}

static void policy_set(struct policy *p, const char *name, struct fate f)
{
    bool optional = name[0] == '?';
    int nr = seccomp_syscall_resolve_name(name + optional);

    if (nr == __NR_SCMP_ERROR && !optional)
        exit_with_error(name, "no such system call");
    if (nr < 0)
        return; /* unknown, or another architecture's */
    if (nr >= NUMBERS || p->fate_of[nr] != 0)
        exit_with_error(name, "in two lists, or NUMBERS is too small");
    p->fate_of[nr] = policy_fate(p, f);
}

static void policy_add_names(struct policy *p, const char *const *names, size_t n, uint32_t action)
{
    for (size_t i = 0; i < n; i++)
        policy_set(p, names[i], (struct fate){ .otherwise = action });
}

static void policy_add_rules(struct policy *p, const struct filter_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fate f = { .otherwise = rules[i].otherwise };

        memcpy(f.tests, rules[i].tests, sizeof f.tests);
        policy_set(p, rules[i].name, f);
    }
}

/* Removes a call of the strict table, which the standard table must contain. */
static void policy_remove(struct policy *p, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name + (name[0] == '?'));

    if (nr >= 0 && (nr >= NUMBERS || p->fate_of[nr] == 0))
        exit_with_error(name, "in the strict table, but not in the standard one");
    if (nr >= 0)
        p->fate_of[nr] = 0;
}

static void policy_replace_names(struct policy *p, const char *const *names, size_t n,
                                 uint32_t action)
{
    for (size_t i = 0; i < n; i++)
        policy_remove(p, names[i]);
    policy_add_names(p, names, n, action);
}

/* Adds a number to the last leaf, if it has that leaf's fate or the next number has it. */
static bool leaf_takes(struct leaf *last, const struct policy *p, uint32_t nr)
{
    size_t fate = p->fate_of[nr];

    if (fate == last->fate)
        return true;
    if (last->n_odd == ODD_MAX || nr + 1 == NUMBERS || p->fate_of[nr + 1] != last->fate)
        return false;
    last->odd[last->n_odd].number = nr;
    last->odd[last->n_odd++].fate = fate;
    return true;
}

/* Writes the leaves of a policy in order; `leaves` has room for one more than there are numbers. */
static size_t policy_leaves(struct policy *p, struct leaf *leaves)
{
    size_t n = 1;

    leaves[0] = (struct leaf){ .first = 0, .fate = p->fate_of[0] };
    for (uint32_t nr = 1; nr < NUMBERS; nr++)
        if (!leaf_takes(&leaves[n - 1], p, nr))
            leaves[n++] = (struct leaf){ .first = nr, .fate = p->fate_of[nr] };
    if (leaves[n - 1].fate != 0)
        exit_with_error("NUMBERS", "too small");
    /* x32 calls report the architecture x86_64 and can be recognised by their numbers only. */
    if (seccomp_arch_native() == SCMP_ARCH_X86_64)
        leaves[n++] = (struct leaf){
            .first = X32_BIT,
            .fate = policy_fate(p, (struct fate){ .otherwise = SECCOMP_RET_KILL_PROCESS }),
            .odd[0] = { .number = SKIPPED, .fate = 0 },
            .n_odd = 1,
        };
    return n;
}

static size_t emit_instruction(struct program *p, struct sock_filter s)
{
    if (p->n == COUNT_OF(p->code))
        exit_with_error("program", "too long");
    p->code[p->n] = s;
    return p->n++;
}

static size_t emit_load(struct program *p, uint32_t at)
{
    return emit_instruction(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at));
}

static size_t jump_distance(const struct program *p, size_t label)
{
    return p->n - label - 1;
}

static size_t emit_far_jump(struct program *p, size_t label)
{
    return emit_instruction(
        p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)jump_distance(p, label)));
}

/* The label itself, or that of an unconditional jump to it, which may be longer. */
static size_t near_label(struct program *p, size_t label)
{
    /* One less, because the other target may need such a jump, too. */
    return jump_distance(p, label) < JUMP_MAX ? label : emit_far_jump(p, label);
}

static size_t emit_jump(struct program *p, uint16_t test, uint32_t value, size_t yes, size_t no)
{
    yes = near_label(p, yes);
    no = near_label(p, no);
    return emit_instruction(p, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value,
                                                            (uint8_t)jump_distance(p, yes),
                                                            (uint8_t)jump_distance(p, no)));
}

static size_t emit_return(struct program *p, uint32_t action)
{
    for (size_t i = p->n; i-- > 0 && jump_distance(p, i) < REUSE_MAX;)
        if (p->code[i].code == (BPF_RET | BPF_K) && p->code[i].k == action)
            return i;
    return emit_instruction(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static size_t emit_test(struct program *p, const struct filter_test *t, size_t yes, size_t next)
{
    switch (t->op) {
    case FILTER_IS:
    case FILTER_TYPE_IS: /* of what emit_argument() left of it */
        return emit_jump(p, BPF_JEQ, t->value, yes, next);
    case FILTER_IS_NOT:
        return emit_jump(p, BPF_JEQ, t->value, next, yes);
    case FILTER_AT_LEAST:
        return emit_jump(p, BPF_JGE, t->value, yes, next);
    case FILTER_HAS_ANY:
        return emit_jump(p, BPF_JSET, t->value, yes, next);
    case FILTER_END:
        break;
    }
    return next;
}

/* Whether a test other than the one right before jumps to this one. */
static bool test_is_target(const struct fate *f, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (f->tests[k].action == FILTER_GO(i))
            return true;
    return false;
}

/* The target of a positive answer: a later test, which is emitted already, or a return. */
static size_t emit_yes_target(struct program *p, const size_t *labels, size_t i, uint32_t action)
{
    size_t to = action & ~FILTER_GO_MASK_;

    if ((action & FILTER_GO_MASK_) != FILTER_GO_)
        return emit_return(p, action);
    if (to <= i || to >= FILTER_TESTS_MAX || labels[to] == SIZE_MAX)
        exit_with_error("FILTER_GO", "not to a later test");
    return labels[to];
}

/* The argument as a test compares it. */
static size_t emit_argument(struct program *p, const struct filter_test *t)
{
    if (t->op == FILTER_TYPE_IS)
        emit_instruction(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K,
                                                         _IOC_TYPEMASK << _IOC_TYPESHIFT));
    return emit_load(p, AT(args) + 8 * t->argument);
}

/* Whether the test right before leaves what this one compares. */
static bool test_has_argument(const struct filter_test *before, const struct filter_test *t)
{
    return before->argument == t->argument &&
           (before->op == FILTER_TYPE_IS) == (t->op == FILTER_TYPE_IS);
}

/* Tests overwrite the loaded number with arguments, so they can only be leaves of the search. */
static size_t emit_tests(struct program *p, const struct fate *f)
{
    size_t label = emit_return(p, f->otherwise), labels[FILTER_TESTS_MAX];

    for (size_t i = FILTER_TESTS_MAX; i-- > 0;) {
        labels[i] = SIZE_MAX;
        if (f->tests[i].op == FILTER_END)
            continue;
        label =
            emit_test(p, &f->tests[i], emit_yes_target(p, labels, i, f->tests[i].action), label);
        if (i == 0 || !test_has_argument(&f->tests[i - 1], &f->tests[i]) || test_is_target(f, i))
            label = emit_argument(p, &f->tests[i]);
        labels[i] = label;
    }
    return label;
}

static size_t emit_fate(struct program *p, const struct policy *policy, size_t fate)
{
    size_t *label = &p->label_of_fate[fate];

    if (*label == 0)
        *label = emit_tests(p, &policy->fates[fate]);
    else if (jump_distance(p, *label) >= REUSE_MAX)
        *label = emit_far_jump(p, *label);
    return *label;
}

static size_t emit_tree(struct program *p, const struct policy *policy, const struct leaf *leaves,
                        size_t n)
{
    size_t half = n / 2, low, high;

    if (n == 1) {
        size_t label = emit_fate(p, policy, leaves->fate);

        for (size_t i = leaves->n_odd; i-- > 0;)
            label = emit_jump(p, BPF_JEQ, leaves->odd[i].number,
                              emit_fate(p, policy, leaves->odd[i].fate), label);
        return label;
    }
    high = emit_tree(p, policy, leaves + half, n - half);
    low = emit_tree(p, policy, leaves, half);
    return emit_jump(p, BPF_JGE, leaves[half].first, high, low);
}

/* False for rules of the standard table that the strict one replaced. */
static bool fate_is_used(const struct leaf *leaves, size_t n, size_t fate)
{
    for (size_t i = 0; i < n; i++) {
        if (leaves[i].fate == fate)
            return true;
        for (size_t k = 0; k < leaves[i].n_odd; k++)
            if (leaves[i].odd[k].fate == fate)
                return true;
    }
    return false;
}

static void emit_search(struct program *p, struct policy *policy)
{
    static struct leaf leaves[NUMBERS + 1];
    size_t n = policy_leaves(policy, leaves), kill, tree;

    kill = emit_return(p, SECCOMP_RET_KILL_PROCESS);
    /* All at the end, so that they are not between the jumps of the tree. */
    for (size_t i = 0; i < policy->n_fates; i++)
        if (fate_is_used(leaves, n, i))
            emit_fate(p, policy, i);
    tree = emit_tree(p, policy, leaves, n);
    if (jump_distance(p, tree) > 0) /* the load falls through to it */
        exit_with_error("policy", "without differences");
    tree = emit_load(p, AT(nr));
    emit_jump(p, BPF_JEQ, seccomp_arch_native(), tree, kill);
    emit_load(p, AT(arch));
}

static void print_program(const char *name, struct policy *policy)
{
    static struct program p;

    p = (struct program){ .n = 0 };
    emit_search(&p, policy);
    printf("static const struct sock_filter %s[] = {\n", name);
    for (size_t i = p.n; i-- > 0;)
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", p.code[i].code, p.code[i].jt, p.code[i].jf,
               p.code[i].k);
    printf("};\n");
}

static void policy_standard(struct policy *p)
{
    *p = (struct policy){ .fates[0].otherwise = FILTER_REFUSE(ENOSYS), .n_fates = 1 };
    policy_add_names(p, filter_allowed, COUNT_OF(filter_allowed), FILTER_ALLOW);
    policy_add_names(p, filter_denied, COUNT_OF(filter_denied), FILTER_REFUSE(EPERM));
    policy_add_rules(p, filter_rules, COUNT_OF(filter_rules));
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++) {
        struct fate f = { .otherwise = FILTER_ALLOW };

        f.tests[0] = (struct filter_test){ filter_modes[i].argument, FILTER_HAS_ANY, FILTER_SET_IDS,
                                           FILTER_UNLESS(KERNEL_SET_IDS, EPERM) };
        policy_set(p, filter_modes[i].name, f);
    }
}

static void policy_strict(struct policy *p)
{
    policy_standard(p);
    policy_replace_names(p, filter_strict_denied, COUNT_OF(filter_strict_denied),
                         FILTER_REFUSE(EPERM));
    policy_replace_names(p, filter_strict_missing, COUNT_OF(filter_strict_missing),
                         FILTER_REFUSE(ENOSYS));
    policy_replace_names(p, filter_strict_ignored, COUNT_OF(filter_strict_ignored),
                         FILTER_REFUSE(0));
    for (size_t i = 0; i < COUNT_OF(filter_strict_rules); i++)
        policy_remove(p, filter_strict_rules[i].name);
    policy_add_rules(p, filter_strict_rules, COUNT_OF(filter_strict_rules));
}

int main(void)
{
    static struct policy p;

    printf("/* Made by filter_compile.c from filter_table.h. */\n");
    policy_standard(&p);
    print_program("filter_standard", &p);
    policy_strict(&p);
    print_program("filter_strict", &p);
    return 0;
}
