/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/coding.h"
#include "base/own.h"
#include "harness/tap.h"

TEST(choices)
{
    static const struct {
        const char *accept;
        enum http_coding coding;
    } rows[] = {
        { NULL, HTTP_AS_IT_IS },
        { "", HTTP_AS_IT_IS },
        { "gzip", HTTP_GZIP },
        { "GZip", HTTP_GZIP },
        { "x-gzip", HTTP_GZIP },
        { "gzip, deflate", HTTP_AS_IT_IS },
        { "br;q=1.0 , gzip;q=0.8, *;q=0.1", HTTP_AS_IT_IS },
        { "br;q=0.7 , gzip;q=0.8, *;q=0.1", HTTP_GZIP },
        { "identity;q=0, br, gzip;q=0.5", HTTP_GZIP },
        { "gzip, *", HTTP_GZIP },
        { "deflate, br", HTTP_AS_IT_IS },
        { "gzipped", HTTP_AS_IT_IS },
        { "gzip;q=0", HTTP_AS_IT_IS },
        { "gzip;q=0.000", HTTP_AS_IT_IS },
        { "gzip;q=0.001", HTTP_GZIP },
        { "gzip;Q=1.000", HTTP_GZIP },
        { "gzip; x=y; q=0", HTTP_AS_IT_IS },
        { "gzip;q=1.001", HTTP_AS_IT_IS },
        { "gzip;q=0.0001", HTTP_AS_IT_IS },
        { "gzip;q=-1", HTTP_AS_IT_IS },
        { "gzip;q=", HTTP_AS_IT_IS },
        { "gzip;q=0.x", HTTP_AS_IT_IS },
        { "identity", HTTP_AS_IT_IS },
        { "identity, gzip", HTTP_AS_IT_IS },
        { "gzip;q=0.5, identity", HTTP_AS_IT_IS },
        { "identity;q=0.5, gzip", HTTP_GZIP },
        { "identity;q=0", HTTP_NO_CODING },
        { "identity;q=0, br", HTTP_NO_CODING },
        { "identity;q=0, gzip", HTTP_GZIP },
        { "identity;q=0, gzip;q=0, *", HTTP_NO_CODING },
        { "identity;q=0, *", HTTP_GZIP },
        { "*", HTTP_AS_IT_IS },
        { "*;q=0", HTTP_NO_CODING },
        { "*;q=0, identity", HTTP_AS_IT_IS },
        { "*;q=0, gzip", HTTP_GZIP },
        { ",,;;=,", HTTP_AS_IT_IS },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (http_coding(str_from(rows[i].accept)) != rows[i].coding)
            FAIL("%s", rows[i].accept ? rows[i].accept : "(none)");
}
