/* SPDX-License-Identifier: Apache-2.0 */
/* The bpf(2) system call, as far as the gate needs it. Every descriptor is close-on-exec. */
#ifndef LIB_GATE_BPF_H
#define LIB_GATE_BPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A hash map that programs can only read; values are 4 bytes. */
int bpf_hash_make(const char *name, size_t key_size, uint32_t entries, int *ret, struct err *e);
/* Existing keys stay; the value is 1. */
int bpf_key_add(int map, const void *key, struct err *e);
void bpf_key_remove(int map, const void *key);

/* Loads a program of type cgroup/sock_addr for `where`. If the verifier refuses it, the error ends
 * with the last words of its log. */
int bpf_load(const struct bpf_insn *text, size_t n, enum bpf_attach_type where, int *ret,
             struct err *e);
/* Attaches it to a group of cgroup v2 beside programs of others, for the group and all below. */
int bpf_attach(int program, int group, enum bpf_attach_type where, struct err *e);

#endif
