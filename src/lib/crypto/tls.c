/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include "base/own.h"

enum { CHAIN_MAX = 8, HANDSHAKE_MAX = 64 << 10 };

static SSL_CTX *ssl_context(struct crypto_tls_identity *i)
{
    return (SSL_CTX *)i;
}

static SSL *ssl_session(const struct crypto_tls *t)
{
    union {
        const struct crypto_tls *in;
        SSL *out;
    } same = { .in = t };

    return same.out;
}

/* --- who we are --- */

static BIO *new_memory_bio(struct str text)
{
    BIO *b = text.n <= INT_MAX ? BIO_new_mem_buf(text.p, (int)text.n) : NULL;

    if (!b)
        abort();
    return b;
}

static bool use_chain(SSL_CTX *c, struct str chain)
{
    BIO *b = new_memory_bio(chain);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    bool good = x && SSL_CTX_use_certificate(c, x) == 1;

    X509_free(x);
    for (int n = 1; good && n < CHAIN_MAX && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)); n++)
        good = SSL_CTX_add0_chain_cert(c, x) == 1;
    BIO_free(b);
    ERR_clear_error(); /* the end of the file is one */
    return good;
}

/* Rejects keys with a passphrase: a daemon cannot prompt for one. */
static int no_passphrase(char *room, int size, int writing, void *user)
{
    return -1;
}

static bool use_key(SSL_CTX *c, struct str key)
{
    BIO *b = new_memory_bio(key);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL);
    bool good = k && SSL_CTX_use_PrivateKey(c, k) == 1;

    EVP_PKEY_free(k);
    BIO_free(b);
    ERR_clear_error();
    return good;
}

static int on_choose_alpn(SSL *s, const unsigned char **out, unsigned char *out_n,
                          const unsigned char *in, unsigned in_n, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof ours - 1, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

int crypto_tls_identity_new(struct str chain, struct str key, struct crypto_tls_identity **ret,
                            struct err *e)
{
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    int r = 0;

    if (!c)
        abort();
    SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(c, 0);
    SSL_CTX_set_max_cert_list(c, HANDSHAKE_MAX);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(c, on_choose_alpn, NULL);
    if (!use_chain(c, chain))
        r = err_set(e, ERR_INVALID,
                    "the certificate is not valid PEM; begin the file with the server's own");
    else if (!use_key(c, key))
        r = err_set(e, ERR_INVALID,
                    "the key is not valid PEM, or has a passphrase; remove the passphrase");
    else if (SSL_CTX_check_private_key(c) != 1)
        r = err_set(e, ERR_INVALID, "the key does not belong to the certificate");
    ERR_clear_error();
    if (r < 0)
        SSL_CTX_free(c);
    else
        *ret = (struct crypto_tls_identity *)c;
    return r;
}

void crypto_tls_identity_free(struct crypto_tls_identity *i)
{
    SSL_CTX_free(ssl_context(i));
}

/* --- one connection --- */

struct crypto_tls *crypto_tls_new(struct crypto_tls_identity *i, int fd)
{
    SSL *s = SSL_new(ssl_context(i));

    if (!s || SSL_set_fd(s, fd) != 1)
        abort();
    SSL_set_accept_state(s);
    return (struct crypto_tls *)s;
}

void crypto_tls_free(struct crypto_tls *t)
{
    SSL_free(ssl_session(t));
}

static int result_of(const struct crypto_tls *t, int r)
{
    int why = SSL_get_error(ssl_session(t), r);

    ERR_clear_error();
    return why == SSL_ERROR_WANT_READ     ? CRYPTO_TLS_NEEDS_READ
           : why == SSL_ERROR_WANT_WRITE  ? CRYPTO_TLS_NEEDS_WRITE
           : why == SSL_ERROR_ZERO_RETURN ? CRYPTO_TLS_OVER
                                          : CRYPTO_TLS_BROKEN;
}

int crypto_tls_handshake(struct crypto_tls *t)
{
    int r;

    ERR_clear_error();
    r = SSL_do_handshake(ssl_session(t));
    return r == 1 ? 1 : result_of(t, r);
}

ssize_t crypto_tls_read(struct crypto_tls *t, char *room, size_t n)
{
    int r;

    ERR_clear_error();
    r = SSL_read(ssl_session(t), room, n < INT_MAX ? (int)n : INT_MAX);
    return r > 0 ? r : result_of(t, r);
}

ssize_t crypto_tls_write(struct crypto_tls *t, struct str data)
{
    int r;

    ERR_clear_error();
    r = SSL_write(ssl_session(t), data.p, data.n < INT_MAX ? (int)data.n : INT_MAX);
    return r > 0 ? r : result_of(t, r);
}

void crypto_tls_end(struct crypto_tls *t)
{
    ERR_clear_error();
    SSL_shutdown(ssl_session(t));
    ERR_clear_error();
}

bool crypto_tls_pending(const struct crypto_tls *t)
{
    return SSL_has_pending(ssl_session(t));
}
