/* Where managers look if nobody tells them, as their own program texts say it. */
#include "base/own.h"
#include "packages/inside.h"

/* Moves behind the first mark. */
static bool skip_to(struct str *text, struct str mark)
{
    const char *at = text->n ? memmem(text->p, text->n, mark.p, mark.n) : NULL;

    if (!at)
        return false;
    at += mark.n;
    *text = (struct str){ at, text->n - (size_t)(at - text->p) };
    return true;
}

/* The next text in quotes of either kind, on one line; moves behind it. */
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

static bool add_name(struct packages *p, struct str name)
{
    static const struct str scheme = { "https://", 8 };
    char url[8 + HOST_MAX];

    if (name.n > HOST_MAX)
        return false;
    memcpy(url, scheme.p, scheme.n);
    memcpy(url + scheme.n, name.p, name.n);
    return packages_add_url(p, (struct str){ url, scheme.n + name.n });
}

/* PyPI = PackageIndex("URL", file_storage_domain="NAME") */
bool packages_built_in_pip(struct packages *p, struct str text)
{
    struct str arguments, url, files;

    if (!skip_to(&text, STR("\nPyPI = PackageIndex(")))
        return false;
    str_cut(text, ')', &arguments);
    if (!next_quoted(&arguments, &url) || !packages_add_url(p, url))
        return false;
    return !next_quoted(&arguments, &files) || add_name(p, files);
}

/* 'registry', { default: 'URL', … } */
bool packages_built_in_npm(struct packages *p, struct str text)
{
    struct str body, url;

    if (!skip_to(&text, STR("'registry', {")))
        return false;
    str_cut(text, '}', &body);
    return skip_to(&body, STR("default:")) && next_quoted(&body, &url) && packages_add_url(p, url);
}

/* envOr("GOPROXY", "URL,direct") */
bool packages_built_in_go(struct packages *p, struct str text)
{
    struct str list;

    return skip_to(&text, STR("envOr(\"GOPROXY\",")) && next_quoted(&text, &list) &&
           packages_add_proxies(p, list);
}

/* def self.default_sources %w[URL …] */
bool packages_built_in_gem(struct packages *p, struct str text)
{
    struct str words;

    if (!skip_to(&text, STR("def self.default_sources")) || !skip_to(&text, STR("%w[")))
        return false;
    str_cut(text, ']', &words);
    return packages_add_words(p, words);
}
