/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/authority.h"

#include "base/own.h"
#include "lib/crypto/tls.h"
#include "harness/tap.h"

enum { PEM_MAX = 16 << 10 };

struct pair {
    struct buf certificate, key;
};

static void pair_done(struct pair *p)
{
    buf_done(&p->certificate);
    buf_done(&p->key);
}

#define PAIR ((struct pair){ BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) })

static int identity(const struct pair *certificate, const struct pair *key)
{
    struct crypto_tls_identity *i = NULL;
    int r =
        crypto_tls_identity_new(buf_str(&certificate->certificate), buf_str(&key->key), &i, NULL);

    crypto_tls_identity_free(i);
    return r;
}

TEST(what_an_authority_issues_can_be_served_with)
{
    AUTO(pair_done) struct pair a = PAIR, one = PAIR, two = PAIR;
    struct err e;

    CHECK_OK(crypto_authority_make("a.test", &a.certificate, &a.key, &e), e);
    CHECK_OK(crypto_authority_issue(buf_str(&a.certificate), buf_str(&a.key), "a.test",
                                    &one.certificate, &one.key, &e),
             e);
    CHECK_OK(crypto_authority_issue(buf_str(&a.certificate), buf_str(&a.key), "a.test",
                                    &two.certificate, &two.key, &e),
             e);
    CHECK_INT(identity(&one, &one), 0);
    CHECK_INT(identity(&one, &two), -(int)ERR_INVALID);
    CHECK(!str_eq(buf_str(&one.certificate), buf_str(&two.certificate)));
}

TEST(an_authority_is_its_domains)
{
    AUTO(pair_done) struct pair a = PAIR, b = PAIR, out = PAIR;
    struct err e;

    CHECK_OK(crypto_authority_make("a.test", &a.certificate, &a.key, &e), e);
    CHECK_OK(crypto_authority_make("b.test", &b.certificate, &b.key, &e), e);
    CHECK_INT(crypto_authority_issue(buf_str(&a.certificate), buf_str(&a.key), "b.test",
                                     &out.certificate, &out.key, &e),
              -(int)ERR_INVALID);
    CHECK_INT(crypto_authority_issue(buf_str(&a.certificate), buf_str(&b.key), "a.test",
                                     &out.certificate, &out.key, &e),
              -(int)ERR_INVALID);
    CHECK_INT(
        crypto_authority_issue(STR("none"), STR(""), "a.test", &out.certificate, &out.key, &e),
        -(int)ERR_INVALID);
    CHECK_INT(out.certificate.n + out.key.n, 0);
}

TEST(texts_that_are_no_identity)
{
    struct pair none = PAIR;

    CHECK_INT(identity(&none, &none), -(int)ERR_INVALID);
    pair_done(&none);
}
