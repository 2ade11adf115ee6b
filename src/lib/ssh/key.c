/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/key.h"

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/secret.h"

enum { BLOB_MAX = SSH_KEY_LINE_MAX, PADDING = 8 };

#define ED25519 STR("ssh-ed25519")

/* --- the wire's strings: a length of four bytes, and the bytes --- */

/* Buffers of ours have room for every key, which has a fixed size. */
static void write_bytes(struct buf *b, struct str s)
{
    if (buf_add(b, s) < 0)
        abort();
}

static void write_u32(struct buf *b, size_t n)
{
    const char bytes[] = { (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n };

    write_bytes(b, (struct str){ bytes, sizeof bytes });
}

static void write_string(struct buf *b, struct str s)
{
    write_u32(b, s.n);
    write_bytes(b, s);
}

static bool take_str(struct str *rest, struct str *ret)
{
    const unsigned char *p = (const unsigned char *)rest->p;
    size_t n;

    if (rest->n < 4)
        return false;
    n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (n > rest->n - 4)
        return false;
    *ret = (struct str){ rest->p + 4, n };
    *rest = (struct str){ rest->p + 4 + n, rest->n - 4 - n };
    return true;
}

/* --- what others send --- */

static const char *const types[] = {
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
};

/* Strings to the end, of which the first is the type and another is there. */
static bool is_blob(struct str rest, struct str type)
{
    struct str part;
    size_t n = 0;

    while (rest.n) {
        if (!take_str(&rest, &part) || (n == 0 && !str_eq(part, type)))
            return false;
        n++;
    }
    return n >= 2;
}

int ssh_public_key_read(struct str line, struct buf *ret, struct err *e)
{
    AUTO(buf_done) struct buf blob = BUF_INIT(BLOB_MAX);
    struct str type, text, rest;
    bool known = false;

    line = str_trim(line);
    rest = str_cut(line, ' ', &type);
    str_cut(rest, ' ', &text);
    for (size_t i = 0; i < COUNT_OF(types); i++)
        known |= str_eq(type, str_from(types[i]));
    if (line.n > SSH_KEY_LINE_MAX || str_find(line, '\n') < line.n || !known || !text.n)
        return err_set(
            e, ERR_INVALID,
            "not a public key of OpenSSH: copy the line of a file such as id_ed25519.pub");
    if (crypto_unbase64(text, &blob, NULL) < 0 || !is_blob(buf_str(&blob), type))
        return err_set(e, ERR_INVALID,
                       "the public key is damaged: the text after " STR_FMT
                       " is not a key of this type",
                       STR_ARG(type));
    if (buf_addf(ret, STR_FMT " " STR_FMT, STR_ARG(type), STR_ARG(text)) < 0)
        return err_set(e, ERR_TOO_BIG, "a public key takes more than %zu bytes", ret->max);
    return 0;
}

/* --- ours --- */

static struct str key_bytes(const unsigned char *p, size_t n)
{
    return (struct str){ (const char *)p, n };
}

static void write_public_key(const unsigned char *public, struct buf *b)
{
    write_string(b, ED25519);
    write_string(b, key_bytes(public, CRYPTO_SIGN_KEY_SIZE));
}

int ssh_public_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret)
{
    AUTO(buf_done) struct buf blob = BUF_INIT(128);
    unsigned char public[CRYPTO_SIGN_KEY_SIZE];
    int r = buf_addf(ret, STR_FMT " ", STR_ARG(ED25519));

    crypto_sign_public(key, public);
    write_public_key(public, &blob);
    return r < 0 ? r : crypto_base64(buf_str(&blob), ret);
}

/* The part that would be encrypted; a file without a passphrase has an arbitrary number twice in
 * front of it and is padded to a block. */
static void write_private_key(const unsigned char *key, const unsigned char *public, struct buf *b)
{
    unsigned char both[2 * CRYPTO_SIGN_KEY_SIZE];

    memcpy(both, key, CRYPTO_SIGN_KEY_SIZE);
    memcpy(both + CRYPTO_SIGN_KEY_SIZE, public, CRYPTO_SIGN_KEY_SIZE);
    write_u32(b, 0);
    write_u32(b, 0);
    write_public_key(public, b);
    write_string(b, key_bytes(both, sizeof both));
    crypto_wipe(both, sizeof both);
    write_string(b, STR("")); /* the comment */
    for (char pad = 1; b->n % PADDING; pad++)
        write_bytes(b, (struct str){ &pad, 1 });
}

static void write_key_file(const unsigned char *public, struct str private, struct buf *b)
{
    AUTO(buf_done) struct buf blob = BUF_INIT(128);

    write_public_key(public, &blob);
    write_bytes(b, (struct str){ "openssh-key-v1", sizeof "openssh-key-v1" });
    write_string(b, STR("none")); /* cipher, the way to its key, and options of that */
    write_string(b, STR("none"));
    write_string(b, STR(""));
    write_u32(b, 1); /* key */
    write_string(b, buf_str(&blob));
    write_string(b, private);
}

int ssh_private_key_write(const unsigned char key[static CRYPTO_SIGN_KEY_SIZE], struct buf *ret)
{
    AUTO(buf_done) struct buf private = BUF_INIT(512), file = BUF_INIT(1024);
    unsigned char public[CRYPTO_SIGN_KEY_SIZE];
    int r = buf_addf(ret, "-----BEGIN OPENSSH PRIVATE KEY-----\n");

    crypto_sign_public(key, public);
    write_private_key(key, public, &private);
    write_key_file(public, buf_str(&private), &file);
    if (r >= 0)
        r = crypto_base64(buf_str(&file), ret);
    if (r >= 0)
        r = buf_addf(ret, "\n-----END OPENSSH PRIVATE KEY-----\n");
    crypto_wipe(private.p, private.n);
    crypto_wipe(file.p, file.n);
    return r;
}
