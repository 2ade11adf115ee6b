/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/environment.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "lib/ipc/listeners.h"

const char *const environment_proxy[ENVIRONMENT_PROXY_COUNT] = {
    "HTTP_PROXY=" LISTENERS_PROXY_URL,  "http_proxy=" LISTENERS_PROXY_URL,
    "HTTPS_PROXY=" LISTENERS_PROXY_URL, "https_proxy=" LISTENERS_PROXY_URL,
    "ALL_PROXY=" LISTENERS_PROXY_URL,   "all_proxy=" LISTENERS_PROXY_URL,
    "NO_PROXY=" LISTENERS_NO_PROXY,     "no_proxy=" LISTENERS_NO_PROXY,
};

const char *const environment_usual[ENVIRONMENT_USUAL_COUNT] = { "LANG=C.UTF-8",
                                                                 "TERM=xterm-256color" };

static bool is_proxy_variable(const char *name, size_t n)
{
    static const char end[] = "_proxy";
    size_t m = sizeof end - 1;

    return n > m && strncasecmp(name + n - m, end, m) == 0;
}

static bool has_variable(const char *const *list, size_t n, const char *text)
{
    size_t length = strcspn(text, "=");
    int (*compare)(const char *, const char *, size_t) =
        is_proxy_variable(text, length) ? strncasecmp : strncmp;

    for (size_t i = 0; i < n; i++)
        if (compare(list[i], text, length) == 0 && list[i][length] == '=')
            return true;
    return false;
}

size_t environment_append(const char **list, size_t n, const char *const *source, size_t count)
{
    size_t before = n;

    for (size_t i = 0; i < count; i++)
        if (!has_variable(list, before, source[i]))
            list[n++] = source[i];
    list[n] = NULL;
    return n;
}
