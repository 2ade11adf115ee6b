/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/authority.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"

enum { DAY = 86400, AUTHORITY_DAYS = 3650, DAYS = 825, SERIAL_BYTES = 16, TEXT_MAX = 1024 };

static void free_private_key(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}

static void free_certificate(X509 **x)
{
    X509_free(*x);
}

static int fail_certificate(struct err *e, const char *doing)
{
    ERR_clear_error();
    return err_set(e, ERR_SYS, "%s a certificate did not work", doing);
}

/* --- texts --- */

static int take_text(BIO *b, struct buf *ret)
{
    char *text;
    long n = BIO_get_mem_data(b, &text);
    int r = n > 0 ? buf_add(ret, (struct str){ text, (size_t)n }) : -(int)ERR_BUG;

    BIO_free(b);
    return r;
}

static BIO *new_secure_bio(void)
{
    BIO *b = BIO_new(BIO_s_secmem());

    if (!b)
        abort();
    return b;
}

static int write_both(X509 *x, EVP_PKEY *k, struct buf *ret_certificate, struct buf *ret_key,
                      struct err *e)
{
    BIO *cert = new_secure_bio(), *key = new_secure_bio();
    bool good = PEM_write_bio_X509(cert, x) == 1 &&
                PEM_write_bio_PrivateKey(key, k, NULL, NULL, 0, NULL, NULL) == 1;
    int a = take_text(cert, ret_certificate), b = take_text(key, ret_key);

    return good && a >= 0 && b >= 0 ? 0 : fail_certificate(e, "writing");
}

static BIO *new_reading_bio(struct str text)
{
    BIO *b = BIO_new_mem_buf(text.p, (int)text.n);

    if (!b)
        abort();
    return b;
}

/* --- certificates --- */

static bool set_serial(X509 *x)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *n;
    bool good;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] &= 0x7f; /* a positive number */
    n = BN_bin2bn(bytes, sizeof bytes, NULL);
    good = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return good;
}

static bool add_certificate_extension(X509 *x, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool good;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    good = extension && X509_add_ext(x, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

/* The common fields of all certificates. Valid from yesterday on, because clocks differ. */
static bool set_certificate_basics(X509 *x, EVP_PKEY *k, const char *name, int days)
{
    return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -DAY) &&
           X509_gmtime_adj(X509_getm_notAfter(x), (long)days * DAY) && X509_set_pubkey(x, k) == 1 &&
           X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool fill_authority(X509 *x, EVP_PKEY *k, const char *domain)
{
    char limits[TEXT_MAX];

    snprintf(limits, sizeof limits, "critical,permitted;DNS:%.255s", domain);
    return set_certificate_basics(x, k, "sandboxer authority", AUTHORITY_DAYS) &&
           X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
           add_certificate_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_certificate_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
           add_certificate_extension(x, x, NID_name_constraints, limits) &&
           add_certificate_extension(x, x, NID_subject_key_identifier, "hash") &&
           X509_sign(x, k, EVP_sha256()) > 0;
}

static bool fill_server(X509 *x, EVP_PKEY *k, const char *domain, X509 *issuer, EVP_PKEY *by)
{
    char names[TEXT_MAX];

    snprintf(names, sizeof names, "DNS:%.255s,DNS:*.%.255s", domain, domain);
    return set_certificate_basics(x, k, "sandboxer", DAYS) &&
           X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
           add_certificate_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_certificate_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_certificate_extension(x, issuer, NID_ext_key_usage, "serverAuth") &&
           add_certificate_extension(x, issuer, NID_subject_alt_name, names) &&
           add_certificate_extension(x, issuer, NID_authority_key_identifier, "keyid") &&
           X509_sign(x, by, EVP_sha256()) > 0;
}

int crypto_authority_make(const char *domain, struct buf *ret_certificate, struct buf *ret_key,
                          struct err *e)
{
    AUTO(free_private_key) EVP_PKEY *k = EVP_EC_gen("P-256");
    AUTO(free_certificate) X509 *x = X509_new();

    if (!k || !x || !fill_authority(x, k, domain))
        return fail_certificate(e, "making");
    return write_both(x, k, ret_certificate, ret_key, e);
}

/* Its name says for which domain it is good. */
static bool is_authority_of(X509 *authority, const char *domain)
{
    NAME_CONSTRAINTS *limits = X509_get_ext_d2i(authority, NID_name_constraints, NULL, NULL);
    const GENERAL_SUBTREE *first =
        limits ? sk_GENERAL_SUBTREE_value(limits->permittedSubtrees, 0) : NULL;
    bool same = first && first->base->type == GEN_DNS &&
                str_eq((struct str){ (const char *)ASN1_STRING_get0_data(first->base->d.dNSName),
                                     (size_t)ASN1_STRING_length(first->base->d.dNSName) },
                       str_from(domain));

    NAME_CONSTRAINTS_free(limits);
    return same;
}

int crypto_authority_issue(struct str authority, struct str authority_key, const char *domain,
                           struct buf *ret_certificate, struct buf *ret_key, struct err *e)
{
    BIO *cert = new_reading_bio(authority), *key = new_reading_bio(authority_key);
    AUTO(free_certificate) X509 *issuer = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    AUTO(free_private_key) EVP_PKEY *by = PEM_read_bio_PrivateKey(key, NULL, NULL, (char[]){ "" });
    AUTO(free_private_key) EVP_PKEY *k = EVP_EC_gen("P-256");
    AUTO(free_certificate) X509 *x = X509_new();

    BIO_free(cert);
    BIO_free(key);
    ERR_clear_error();
    if (!issuer || !by || X509_check_private_key(issuer, by) != 1) {
        ERR_clear_error();
        return err_set(e, ERR_INVALID, "certificate and key of the authority are not a pair");
    }
    if (!is_authority_of(issuer, domain))
        return err_set(e, ERR_INVALID, "the authority is good for another domain than %.200s",
                       domain);
    if (!k || !x || !fill_server(x, k, domain, issuer, by))
        return fail_certificate(e, "making");
    return write_both(x, k, ret_certificate, ret_key, e);
}
