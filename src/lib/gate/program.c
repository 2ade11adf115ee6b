/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gate/program.h"

#include <stdint.h>
#include <string.h>

#include "base/own.h"
#include "lib/gate/gate.h"
#include "lib/net/address.h"

/* r6 holds the context and r7 the port; r2 to r5 hold the words of the address until the first
 * helper is called, r1 is scratch. The key is at the end of the stack. */
enum { R0, R1, R2, R3, R4, R5, R6, R7, R10 = 10 };
enum {
    KEY = -(int)sizeof(struct gate_key),
    KEY_ADDRESS = KEY + (int)offsetof(struct gate_key, address),
    KEY_PORT = KEY + (int)offsetof(struct gate_key, port),
};

/* Where a jump leads to; patched when the places are known. */
enum target { TO_OWN, TO_ASK, TO_ALLOW, TARGETS_ };

struct assembly {
    struct gate_text *text;
    struct {
        size_t from;
        enum target to;
    } jumps[GATE_TEXT_MAX];
    size_t n_jumps;
    size_t at[TARGETS_];
};

static size_t add_insn(struct assembly *a, struct bpf_insn i)
{
    struct gate_text *t = a->text;

    if (t->n < GATE_TEXT_MAX)
        t->p[t->n++] = i;
    return t->n - 1;
}

static struct bpf_insn make_insn(unsigned code, unsigned dst, unsigned src, int off, int32_t imm)
{
    return (struct bpf_insn){ .code = (uint8_t)code,
                              .dst_reg = dst & 0xf,
                              .src_reg = src & 0xf,
                              .off = (int16_t)off,
                              .imm = imm };
}

static void add_load(struct assembly *a, unsigned dst, unsigned src, size_t off)
{
    add_insn(a, make_insn(BPF_LDX | BPF_MEM | BPF_W, dst, src, (int)off, 0));
}

static void add_store(struct assembly *a, unsigned size, int off, unsigned src)
{
    add_insn(a, make_insn(BPF_STX | BPF_MEM | size, R10, src, off, 0));
}

static void add_store_constant(struct assembly *a, unsigned size, int off, int32_t value)
{
    add_insn(a, make_insn(BPF_ST | BPF_MEM | size, R10, 0, off, value));
}

static void add_move(struct assembly *a, unsigned dst, unsigned src)
{
    add_insn(a, make_insn(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0));
}

static void note_jump(struct assembly *a, size_t from, enum target to)
{
    if (a->n_jumps < COUNT_OF(a->jumps)) {
        a->jumps[a->n_jumps].from = from;
        a->jumps[a->n_jumps++].to = to;
    }
}

/* condition: BPF_JEQ or BPF_JNE, of r0 with 0. */
static void add_jump_if(struct assembly *a, unsigned condition, enum target to)
{
    note_jump(a, add_insn(a, make_insn(BPF_JMP | condition | BPF_K, R0, 0, 0, 0)), to);
}

static void add_helper(struct assembly *a, int32_t helper)
{
    add_insn(a, make_insn(BPF_JMP | BPF_CALL, 0, 0, 0, helper));
}

/* r0 = what `map` has for the key at that place of the stack; 0: nothing. */
static void add_lookup(struct assembly *a, int map, int key)
{
    /* BPF_LD and BPF_IMM are 0. The second one is the upper half of the constant. */
    add_insn(a, make_insn(BPF_DW, R1, BPF_PSEUDO_MAP_FD, 0, map));
    add_insn(a, make_insn(0, 0, 0, 0, 0));
    add_move(a, R2, R10);
    add_insn(a, make_insn(BPF_ALU64 | BPF_ADD, R2, 0, 0, key)); /* BPF_K is 0, too */
    add_helper(a, BPF_FUNC_map_lookup_elem);
}

/* --- which range the destination is in --- */

/* 4 bytes as the program loads them from the context, which has them in network order. */
static int32_t word_at(const uint8_t *bytes)
{
    int32_t w;

    memcpy(&w, bytes, sizeof w);
    return w;
}

static int32_t mask_word(unsigned bits, size_t word)
{
    uint8_t bytes[4] = { 0 };

    for (size_t i = 0; i < 32 && word * 32 + i < bits; i++)
        bytes[i / 8] |= (uint8_t)(0x80 >> i % 8);
    return word_at(bytes);
}

/* Compares word by word and passes over the rest of the range where one differs. */
static void add_range_check(struct assembly *a, const struct prefix *p, enum target to)
{
    size_t words = p->base.v6 ? 4 : 1, differs[4], n = 0;

    for (size_t i = 0; i < words && i * 32 < p->bits; i++) {
        add_insn(a, make_insn(BPF_ALU | BPF_MOV | BPF_X, R1, R2 + (unsigned)i, 0, 0));
        add_insn(a, make_insn(BPF_ALU | BPF_AND | BPF_K, R1, 0, 0, mask_word(p->bits, i)));
        differs[n++] = add_insn(
            a, make_insn(BPF_JMP32 | BPF_JNE | BPF_K, R1, 0, 0, word_at(&p->base.bytes[i * 4])));
    }
    note_jump(a, add_insn(a, make_insn(BPF_JMP | BPF_JA, 0, 0, 0, 0)), to);
    for (size_t i = 0; i < n; i++)
        a->text->p[differs[i]].off = (int16_t)(a->text->n - differs[i] - 1);
}

/* --- the parts --- */

static void add_destination(struct assembly *a, bool v6)
{
    static const uint8_t mapped[4] = { 0, 0, 0xff, 0xff };

    if (!v6) {
        add_load(a, R2, R6, offsetof(struct bpf_sock_addr, user_ip4));
        add_store_constant(a, BPF_DW, KEY_ADDRESS, 0);
        add_store_constant(a, BPF_W, KEY_ADDRESS + 8, word_at(mapped));
        add_store(a, BPF_W, KEY_ADDRESS + 12, R2);
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        add_load(a, R2 + i, R6, offsetof(struct bpf_sock_addr, user_ip6) + 4 * i);
        add_store(a, BPF_W, KEY_ADDRESS + 4 * (int)i, R2 + i);
    }
}

static void add_question(struct assembly *a, int places)
{
    add_load(a, R7, R6, offsetof(struct bpf_sock_addr, user_port));
    add_helper(a, BPF_FUNC_get_current_cgroup_id);
    add_store(a, BPF_DW, KEY, R0);
    add_store_constant(a, BPF_DW, KEY_PORT, 0);
    add_lookup(a, places, KEY);
    add_jump_if(a, BPF_JNE, TO_ALLOW);
    add_store(a, BPF_H, KEY_PORT, R7);
    add_lookup(a, places, KEY);
    add_jump_if(a, BPF_JNE, TO_ALLOW);
    add_store_constant(a, BPF_DW, KEY, 0);
    add_lookup(a, places, KEY);
    add_jump_if(a, BPF_JNE, TO_ALLOW);
}

static void add_verdict(struct assembly *a, bool allow)
{
    add_insn(a, make_insn(BPF_ALU64 | BPF_MOV | BPF_K, R0, 0, 0, allow));
    add_insn(a, make_insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
}

void gate_text_make(bool v6, int places, int own, struct gate_text *ret)
{
    struct assembly a = { .text = ret };
    enum address_class class;
    struct prefix p;

    ret->n = 0;
    add_move(&a, R6, R1);
    add_destination(&a, v6);
    for (size_t i = 0; address_range_at(v6, i, &p, &class); i++)
        add_range_check(&a, &p, class == ADDRESS_PUBLIC ? TO_OWN : TO_ASK);
    a.at[TO_OWN] = ret->n;
    add_lookup(&a, own, KEY_ADDRESS);
    add_jump_if(&a, BPF_JEQ, TO_ALLOW);
    a.at[TO_ASK] = ret->n;
    add_question(&a, places);
    add_verdict(&a, false);
    a.at[TO_ALLOW] = ret->n;
    add_verdict(&a, true);
    for (size_t i = 0; i < a.n_jumps; i++)
        ret->p[a.jumps[i].from].off = (int16_t)(a.at[a.jumps[i].to] - a.jumps[i].from - 1);
}
