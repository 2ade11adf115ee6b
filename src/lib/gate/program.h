/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the gate's BPF programs: one for IPv4 destinations, one for IPv6.
 *
 * In words, where `key` is { group, address, port } of the maps' layout in gate.h:
 *
 *     key.address = destination                      IPv4 as ::ffff:a.b.c.d
 *     for each range of lib/net/class.c, in its order:
 *         if the destination is in it: go to OWN if the range is public, else to ASK
 *     OWN:  if the address is not in the map of own addresses: allow
 *     ASK:  if one of these is in the map of places: allow
 *               { group of the process, address, port }
 *               { group of the process, address, 0 }     every port
 *               { 0, address, port }                     every worker
 *           deny                                         the call fails with EPERM
 *
 * Forms of IPv6 that carry an IPv4 are not public in lib/net/class.c, so they are always asked
 * about. */
#ifndef LIB_GATE_PROGRAM_H
#define LIB_GATE_PROGRAM_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

enum { GATE_TEXT_MAX = 1024 };

struct gate_text {
    struct bpf_insn p[GATE_TEXT_MAX];
    size_t n; /* GATE_TEXT_MAX: it did not fit */
};

/* `places` and `own` are descriptors of the maps. */
void gate_text_make(bool v6, int places, int own, struct gate_text *ret);

#endif
