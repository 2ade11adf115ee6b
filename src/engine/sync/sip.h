/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 over data in pieces. The key is random and stays on the host, so a sandbox cannot
 * construct collisions. */
#ifndef ENGINE_SYNC_SIP_H
#define ENGINE_SYNC_SIP_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sip_key {
    uint64_t k[2];
};

/* Two states with one key are equal, byte for byte in v_, tail_ and n_, if their input was
 * equal. */
struct sip {
    uint64_t v_[4];
    uint64_t tail_; /* bytes that do not fill a word yet */
    uint64_t n_;    /* bytes so far */
};

void sip_init(struct sip *h, const struct sip_key *key);
void sip_add(struct sip *h, struct str s);
uint64_t sip_end(const struct sip *h); /* h can be continued */
bool sip_eq(const struct sip *a, const struct sip *b);

uint64_t sip_str(const struct sip_key *key, struct str s);

/* Hashes a file from its current position. */
int sip_fd(const struct sip_key *key, int fd, uint64_t *ret, struct err *e);

#endif
