/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sip.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/tar/tree.h"

enum { WORD = 8 };

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[static 4])
{
    v[0] += v[1];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

static void add_word(uint64_t v[static 4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

void sip_init(struct sip *h, const struct sip_key *key)
{
    h->v_[0] = key->k[0] ^ UINT64_C(0x736f6d6570736575);
    h->v_[1] = key->k[1] ^ UINT64_C(0x646f72616e646f6d);
    h->v_[2] = key->k[0] ^ UINT64_C(0x6c7967656e657261);
    h->v_[3] = key->k[1] ^ UINT64_C(0x7465646279746573);
    h->tail_ = h->n_ = 0;
}

static void add_byte(struct sip *h, char c)
{
    h->tail_ |= (uint64_t)(unsigned char)c << (8 * (h->n_ % WORD));
    if (++h->n_ % WORD == 0) {
        add_word(h->v_, h->tail_);
        h->tail_ = 0;
    }
}

void sip_add(struct sip *h, struct str s)
{
    while (s.n > 0 && h->n_ % WORD != 0) {
        add_byte(h, *s.p++);
        s.n--;
    }
    for (; s.n >= WORD; s.p += WORD, s.n -= WORD) {
        uint64_t word;

        memcpy(&word, s.p, WORD);
        add_word(h->v_, le64toh(word));
        h->n_ += WORD;
    }
    while (s.n > 0) {
        add_byte(h, *s.p++);
        s.n--;
    }
}

uint64_t sip_end(const struct sip *h)
{
    uint64_t v[4];

    memcpy(v, h->v_, sizeof v);
    add_word(v, h->tail_ | h->n_ << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

bool sip_eq(const struct sip *a, const struct sip *b)
{
    return memcmp(a->v_, b->v_, sizeof a->v_) == 0 && a->tail_ == b->tail_ && a->n_ == b->n_;
}

uint64_t sip_str(const struct sip_key *key, struct str s)
{
    struct sip h;

    sip_init(&h, key);
    sip_add(&h, s);
    return sip_end(&h);
}

int sip_fd(const struct sip_key *key, int fd, uint64_t *ret, struct err *e)
{
    char chunk[TREE_CHUNK];
    struct sip h;
    ssize_t n;

    sip_init(&h, key);
    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "reading the file");
        sip_add(&h, (struct str){ chunk, (size_t)n });
    }
    *ret = sip_end(&h);
    return 0;
}
