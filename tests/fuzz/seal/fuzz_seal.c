/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/attest/envelope.h"
#include "engine/attest/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says what the rest is: an envelope, which nobody can have signed, or a
 * manifest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char private_key[CRYPTO_SIGN_KEY_SIZE] =
        "of which the input knows nothing";
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct str rest = { (const char *)data + 1, size ? size - 1 : 0 };
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    struct attest_files none = { 0 };
    static FILE *nowhere;

    if (!size)
        return 0;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    crypto_sign_public(private_key, key);
    if (data[0] % 2 == 0 && attest_envelope_read(key, rest, &text, NULL) >= 0)
        abort();
    if (data[0] % 2 == 1)
        attest_verify(rest, &none, nowhere, NULL);
    return 0;
}
