/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/envelope.h"

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/json/bind.h"
#include "lib/json/reader.h"

enum { KEY_ID_SIZE = 16, TREE_MAX = 256 << 20 };

struct attest_signature {
    const char *keyid, *sig;
};

struct attest_envelope {
    const char *payload, *type;
    struct json_objects signatures;
};

static const struct json_field signature_fields[] = {
    { "keyid", JSON_KIND_STR, JSON_AT(struct attest_signature, keyid), .max = 64 },
    { "sig", JSON_KIND_STR, JSON_AT(struct attest_signature, sig), .required = true, .max = 128 },
};

static const struct json_field envelope_fields[] = {
    { "payload", JSON_KIND_STR, JSON_AT(struct attest_envelope, payload), .required = true,
      .max = ATTEST_ENVELOPE_MAX },
    { "payloadType", JSON_KIND_STR, JSON_AT(struct attest_envelope, type), .required = true,
      .max = 128 },
    { "signatures", JSON_KIND_OBJECTS, JSON_AT(struct attest_envelope, signatures),
      .required = true, .min = 1, .max = 8, JSON_FIELDS(signature_fields),
      .item_size = sizeof(struct attest_signature) },
};

/* "DSSEv1 LEN TYPE LEN TEXT" */
static int to_sign(struct str text, struct buf *out, struct err *e)
{
    if (buf_addf(out, "DSSEv1 %zu %s %zu ", sizeof ATTEST_TYPE - 1, ATTEST_TYPE, text.n) < 0 ||
        buf_add(out, text) < 0)
        return err_set(e, ERR_TOO_BIG, "the text to sign is larger than %d MiB",
                       ATTEST_TEXT_MAX >> 20);
    return 0;
}

int attest_envelope_write(const unsigned char private_key[static CRYPTO_SIGN_KEY_SIZE],
                          struct str text, struct buf *out, struct err *e)
{
    AUTO(buf_done)
    struct buf all = BUF_INIT(ATTEST_TEXT_MAX + 128), payload = BUF_INIT(ATTEST_ENVELOPE_MAX);
    AUTO(buf_done) struct buf sig = BUF_INIT(128), id = BUF_INIT(KEY_ID_SIZE);
    unsigned char signature[CRYPTO_SIGNATURE_SIZE];
    unsigned char key[CRYPTO_SIGN_KEY_SIZE], digest[CRYPTO_SHA256_SIZE];
    struct json_writer w;
    int r = to_sign(text, &all, e);

    if (r < 0)
        return r;
    crypto_sign(private_key, buf_str(&all), signature);
    crypto_sign_public(private_key, key);
    crypto_sha256((struct str){ (const char *)key, sizeof key }, digest);
    (void)crypto_hex((struct str){ (const char *)digest, KEY_ID_SIZE / 2 }, &id);
    if (crypto_base64(text, &payload) < 0 ||
        crypto_base64((struct str){ (const char *)signature, sizeof signature }, &sig) < 0)
        return err_set(e, ERR_TOO_BIG, "the text to sign is larger than %d MiB",
                       ATTEST_TEXT_MAX >> 20);
    json_writer_init(&w, out, JSON_PRETTY);
    json_begin_object(&w);
    json_field_str(&w, "payloadType", STR(ATTEST_TYPE));
    json_field_str(&w, "payload", buf_str(&payload));
    json_field_begin_array(&w, "signatures");
    json_begin_object(&w);
    json_field_str(&w, "keyid", buf_str(&id));
    json_field_str(&w, "sig", buf_str(&sig));
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static bool is_signed(const unsigned char *key, const struct attest_signature *s, struct str all)
{
    AUTO(buf_done) struct buf sig = BUF_INIT(128);

    return crypto_unbase64(str_from(s->sig), &sig, NULL) == 0 && sig.n == CRYPTO_SIGNATURE_SIZE &&
           crypto_signed_by(key, all, (const unsigned char *)sig.p);
}

int attest_envelope_read(const unsigned char public_key[static CRYPTO_SIGN_KEY_SIZE],
                         struct str envelope, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    AUTO(buf_done) struct buf all = BUF_INIT(ATTEST_TEXT_MAX + 128);
    const struct json_limits limits = { .bytes = ATTEST_ENVELOPE_MAX, .depth = 8 };
    struct attest_envelope v = { 0 };
    const struct json *tree;
    const struct attest_signature *s;
    int r = json_read(envelope, limits, &a, &tree, e);

    if (r >= 0)
        r = json_bind(tree, envelope_fields, COUNT_OF(envelope_fields), &v, &a, e);
    if (r < 0)
        return err_wrap(e, r, "not a signed manifest");
    if (strcmp(v.type, ATTEST_TYPE) != 0)
        return err_set(e, ERR_INVALID, "not a manifest: its payload type is %.60s", v.type);
    r = crypto_unbase64(str_from(v.payload), out, e);
    if (r >= 0)
        r = to_sign(buf_str(out), &all, e);
    if (r < 0)
        return err_wrap(e, r, "not a signed manifest");
    s = v.signatures.p;
    for (size_t i = 0; i < v.signatures.n; i++)
        if (is_signed(public_key, &s[i], buf_str(&all)))
            return 0;
    buf_clear(out);
    return err_set(e, ERR_DENIED, "the manifest is not signed by this key");
}
