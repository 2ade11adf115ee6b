/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/accept.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static uint32_t rotate_left(uint32_t v, unsigned by)
{
    return v << by | v >> (32 - by);
}

static uint32_t mix_round(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default:
        return (b ^ c ^ d) + 0xca62c1d6;
    }
}

static void sha1_block(uint32_t h[static 5], const unsigned char block[static 64])
{
    uint32_t w[80], v[5];

    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 80; i++) {
        uint32_t t = rotate_left(v[0], 5) + mix_round(i, v[1], v[2], v[3]) + v[4] + w[i];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate_left(v[1], 30);
        v[1] = v[0];
        v[0] = t;
    }
    for (unsigned i = 0; i < 5; i++)
        h[i] += v[i];
}

/* Of exactly two blocks' worth: a key and the protocol's constant are 60 bytes. */
static void sha1_of_60(const char text[static 60], unsigned char out[static 20])
{
    uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    unsigned char blocks[128] = { 0 };

    memcpy(blocks, text, 60);
    blocks[60] = 0x80;
    blocks[126] = 60 * 8 >> 8;
    blocks[127] = (60 * 8) & 0xff;
    sha1_block(h, blocks);
    sha1_block(h, blocks + 64);
    for (unsigned i = 0; i < 20; i++)
        out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void encode_accept_base64(const unsigned char *in, size_t n, char *out)
{
    for (size_t i = 0; i < n; i += 3, out += 4) {
        uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) |
                     (i + 2 < n ? in[i + 2] : 0);

        out[0] = alphabet[v >> 18];
        out[1] = alphabet[v >> 12 & 63];
        out[2] = '=';
        out[3] = '=';
        if (i + 1 < n)
            out[2] = alphabet[v >> 6 & 63];
        if (i + 2 < n)
            out[3] = alphabet[v & 63];
    }
    *out = '\0';
}

void accept_for_key(struct str key, char out[static ACCEPT_LENGTH + 1])
{
    static const char constant[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[20];
    char text[60];

    memcpy(text, key.p, ACCEPT_KEY_LENGTH);
    memcpy(text + ACCEPT_KEY_LENGTH, constant, sizeof(constant) - 1);
    sha1_of_60(text, digest);
    encode_accept_base64(digest, sizeof(digest), out);
}

bool accept_key_valid(struct str key)
{
    if (key.n != ACCEPT_KEY_LENGTH || memcmp(key.p + 22, "==", 2) != 0)
        return false;
    for (size_t i = 0; i < 22; i++)
        if (key.p[i] == '\0' || !strchr(alphabet, key.p[i]))
            return false;
    return true;
}

void accept_make_key(const unsigned char nonce[static 16], char out[static ACCEPT_KEY_LENGTH + 1])
{
    encode_accept_base64(nonce, 16, out);
}
