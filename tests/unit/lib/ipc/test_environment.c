/* SPDX-License-Identifier: Apache-2.0 */
/* The precedence that lib/ipc/environment.h writes down. */
#include "lib/ipc/environment.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

enum { SOURCES_MAX = 4, VARIABLES_MAX = 4 };

TEST(the_first_source_that_has_a_variable_sets_it)
{
    static const struct {
        const char *const sources[SOURCES_MAX][VARIABLES_MAX];
        const char *merged;
    } cases[] = {
        { { { NULL } }, "" },
        { { { "A=1", "B=2" } }, "A=1 B=2" },
        { { { "A=1" }, { "A=2", "B=2" }, { "A=3", "B=3", "C=3" } }, "A=1 B=2 C=3" },
        { { { NULL }, { "A=2" }, { NULL }, { "A=4", "B=4" } }, "A=2 B=4" },
        /* an empty value is a value */
        { { { "A=" }, { "A=1" } }, "A=" },
        /* names are compared whole, and values not at all */
        { { { "AB=1", "C=A=2" }, { "A=3", "ABC=4" } }, "AB=1 C=A=2 A=3 ABC=4" },
        { { { "path=1" }, { "PATH=2" } }, "path=1 PATH=2" },
        /* a proxy variable in one case stands for both */
        { { { "https_proxy=own" }, { "HTTPS_PROXY=p", "https_proxy=p", "HTTP_PROXY=p" } },
          "https_proxy=own HTTP_PROXY=p" },
        { { { "NO_PROXY=" }, { "no_proxy=x" } }, "NO_PROXY=" },
        { { { "_proxy=1" }, { "_PROXY=2" } }, "_proxy=1 _PROXY=2" },
        /* one source may have both, and is not compared with itself */
        { { { "HTTP_PROXY=x", "http_proxy=y" }, { "http_proxy=z" } }, "HTTP_PROXY=x http_proxy=y" },
        { { { "A=1", "A=2" }, { "A=3" } }, "A=1 A=2" },
        /* an image may have a name without a value */
        { { { "A" }, { "A=1" }, { "AB", "B=2" } }, "A A=1 AB B=2" },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(buf_done) struct buf text = BUF_INIT(256);
        const char *list[SOURCES_MAX * VARIABLES_MAX + 1];
        size_t n = 0;

        for (size_t s = 0; s < SOURCES_MAX; s++) {
            size_t count = 0;

            while (count < VARIABLES_MAX && cases[i].sources[s][count])
                count++;
            n = environment_append(list, n, cases[i].sources[s], count);
            CHECK(!list[n]);
        }
        for (size_t k = 0; k < n; k++)
            CHECK(buf_addf(&text, "%s%s", k ? " " : "", list[k]) >= 0);
        CHECK_STR(buf_str(&text), cases[i].merged);
    }
}

TEST(proxy_variables_are_in_both_cases)
{
    const char *list[2 * ENVIRONMENT_PROXY_COUNT + 1];
    size_t n = environment_append(list, 0, environment_proxy, ENVIRONMENT_PROXY_COUNT);

    CHECK_INT(n, ENVIRONMENT_PROXY_COUNT);
    CHECK_INT(environment_append(list, n, environment_proxy, ENVIRONMENT_PROXY_COUNT), n);
    for (size_t i = 0; i < n; i += 2)
        CHECK(strncasecmp(list[i], list[i + 1], strcspn(list[i], "=") + 1) == 0 &&
              strcmp(list[i], list[i + 1]) != 0);
}
