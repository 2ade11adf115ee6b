/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the default hosts of package managers in their own program texts. */
#include "domain/package_hosts/package_hosts.h"

/* Advances the text behind the first mark. */
static bool skip_behind_mark(struct str *text, struct str mark)
{
    const char *at = text->n ? memmem(text->p, text->n, mark.p, mark.n) : NULL;

    if (!at)
        return false;
    at += mark.n;
    *text = (struct str){ at, text->n - (size_t)(at - text->p) };
    return true;
}

/* Returns the next quoted string on one line, and advances behind it. */
static bool next_quoted(struct str *text, struct str *ret)
{
    size_t from = 0, to;

    while (from < text->n && text->p[from] != '"' && text->p[from] != '\'')
        from++;
    for (to = from + 1; to < text->n && text->p[to] != text->p[from]; to++)
        if (text->p[to] == '\n')
            return false;
    if (to >= text->n)
        return false;
    *ret = (struct str){ text->p + from + 1, to - from - 1 };
    *text = (struct str){ text->p + to + 1, text->n - to - 1 };
    return true;
}

static bool add_https_host(struct package_hosts *p, struct str name)
{
    static const struct str scheme = { "https://", 8 };
    char url[8 + HOST_MAX];

    if (name.n > HOST_MAX)
        return false;
    memcpy(url, scheme.p, scheme.n);
    memcpy(url + scheme.n, name.p, name.n);
    return package_hosts_add_url(p, (struct str){ url, scheme.n + name.n });
}

/* PyPI = PackageIndex("URL", file_storage_domain="NAME") */
bool package_hosts_built_in_pip(struct package_hosts *p, struct str text)
{
    struct str arguments, url, files;

    if (!skip_behind_mark(&text, STR("\nPyPI = PackageIndex(")))
        return false;
    str_cut(text, ')', &arguments);
    if (!next_quoted(&arguments, &url) || !package_hosts_add_url(p, url))
        return false;
    return !next_quoted(&arguments, &files) || add_https_host(p, files);
}

/* 'registry', { default: 'URL', … } */
bool package_hosts_built_in_npm(struct package_hosts *p, struct str text)
{
    struct str body, url;

    if (!skip_behind_mark(&text, STR("'registry', {")))
        return false;
    str_cut(text, '}', &body);
    return skip_behind_mark(&body, STR("default:")) && next_quoted(&body, &url) &&
           package_hosts_add_url(p, url);
}

/* envOr("GOPROXY", "URL,direct") */
bool package_hosts_built_in_go(struct package_hosts *p, struct str text)
{
    struct str list;

    return skip_behind_mark(&text, STR("envOr(\"GOPROXY\",")) && next_quoted(&text, &list) &&
           package_hosts_add_proxies(p, list);
}

/* def self.default_sources %w[URL …] */
bool package_hosts_built_in_gem(struct package_hosts *p, struct str text)
{
    struct str words;

    if (!skip_behind_mark(&text, STR("def self.default_sources")) ||
        !skip_behind_mark(&text, STR("%w[")))
        return false;
    str_cut(text, ']', &words);
    return package_hosts_add_words(p, words);
}
