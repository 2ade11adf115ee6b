#include "packages/packages.h"

#include <stdio.h>

#include "base/own.h"
#include "packages/inside.h"

static bool add_host(struct packages *p, const struct host *h, uint16_t port)
{
    const char *open = h->is_address && h->address.v6 ? "[" : "", *close = open[0] ? "]" : "";
    char text[PACKAGES_TEXT];

    snprintf(text, sizeof text, "%s%s%s:%u", open, h->name, close, port);
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->hosts[i], text) == 0) {
            p->own[i] |= p->trusted_;
            return true;
        }
    if (p->n == PACKAGES_HOSTS_MAX)
        return false;
    p->own[p->n] = p->trusted_;
    memcpy(p->hosts[p->n++], text, sizeof text);
    return true;
}

/* Up to the path, without who asks: that is nobody's business here. */
static struct str authority_of(struct str s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] != '/' && s.p[n] != '?' && s.p[n] != '#')
        n++;
    s.n = n;
    while (n > 0 && s.p[n - 1] != '@')
        n--;
    return (struct str){ s.p + n, s.n - n };
}

/* An image may say anything, and what it says is not what the person who runs it has declared: no
 * address or name of the machine or of the networks around it, nor what no policy can grant. */
static bool is_acceptable(const struct packages *p, const struct host *h, uint16_t port)
{
    bool local = h->is_address ? address_classify(&h->address) != ADDRESS_PUBLIC
                               : host_names_loopback(str_from(h->name));

    return (p->trusted_ || !local) && !host_is_metadata(h) && !port_control_plane(port);
}

bool packages_add_url(struct packages *p, struct str url)
{
    static const struct {
        struct str scheme;
        uint16_t port;
    } schemes[] = { { STR("http://"), 80 },          { STR("https://"), 443 },
                    { STR("sparse+https://"), 443 }, { STR("sparse+http://"), 80 },
                    { STR("mirror+http://"), 80 },   { STR("mirror+https://"), 443 } };
    struct host host;
    uint16_t port;

    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        struct str scheme = schemes[i].scheme;

        if (str_starts(url, scheme))
            return authority_parse(authority_of((struct str){ url.p + scheme.n, url.n - scheme.n }),
                                   schemes[i].port, &host, &port, NULL) >= 0 &&
                   is_acceptable(p, &host, port) && add_host(p, &host, port);
    }
    return false;
}

/* ---- lines ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word, and the rest; empty at the end. */
static struct str next_word(struct str *rest)
{
    size_t from = 0, to;

    while (from < rest->n && is_blank(rest->p[from]))
        from++;
    for (to = from; to < rest->n && !is_blank(rest->p[to]); to++)
        ;
    struct str word = { rest->p + from, to - from };

    *rest = (struct str){ rest->p + to, rest->n - to };
    return word;
}

static bool next_line(struct str *rest, struct str *ret)
{
    if (!rest->p || !rest->n)
        return false;
    *rest = str_cut(*rest, '\n', ret);
    return true;
}

bool packages_add_words(struct packages *p, struct str words)
{
    bool any = false;

    for (struct str word; (word = next_word(&words)).n;)
        any |= packages_add_url(p, word);
    return any;
}

/* "key = value" and "key: value". False if there is no such sign. */
static bool cut_pair(struct str line, char sign, struct str *key, struct str *value)
{
    *value = str_cut(line, sign, key);
    *key = str_trim(*key);
    if (!value->p)
        return false;
    *value = str_trim(*value);
    return true;
}

static bool is_key(struct str s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static struct str unquote(struct str s)
{
    if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0])
        return (struct str){ s.p + 1, s.n - 2 };
    return s;
}

/* ---- the formats ---- */

bool packages_read_apt(struct packages *p, struct str text)
{
    bool any = false;

    for (struct str line; next_line(&text, &line);) {
        struct str word = next_word(&line);

        if (!str_eq(word, STR("deb")) && !str_eq(word, STR("deb-src")))
            continue;
        word = next_word(&line);
        while (word.n && str_starts(word, STR("[")) && !str_ends(word, STR("]")))
            for (word = next_word(&line); word.n && !str_ends(word, STR("]"));)
                word = next_word(&line);
        if (str_ends(word, STR("]")))
            word = next_word(&line);
        any |= packages_add_url(p, word);
    }
    return any;
}

/* One stanza: its URIs, or nothing if it is switched off. */
static bool read_stanza(struct packages *p, struct str stanza)
{
    bool any = false, uris = false;
    struct str text = stanza, line, key, value;

    while (next_line(&text, &line))
        if (line.n && !is_blank(line.p[0]) && cut_pair(line, ':', &key, &value) &&
            is_key(key, "enabled") && (is_key(value, "no") || is_key(value, "false")))
            return false;
    while (next_line(&stanza, &line)) {
        if (line.n && line.p[0] == '#')
            continue;
        if (line.n && is_blank(line.p[0])) {
            any |= uris && packages_add_words(p, line);
            continue;
        }
        uris = cut_pair(line, ':', &key, &value) && is_key(key, "uris");
        any |= uris && packages_add_words(p, value);
    }
    return any;
}

bool packages_read_deb822(struct packages *p, struct str text)
{
    bool any = false;

    while (text.n) {
        struct str stanza = { text.p, 0 }, line;

        while (next_line(&text, &line) && str_trim(line).n)
            stanza.n = (size_t)(line.p + line.n - stanza.p);
        any |= read_stanza(p, stanza);
    }
    return any;
}

bool packages_read_list(struct packages *p, struct str text)
{
    bool any = false;

    for (struct str line; next_line(&text, &line);)
        if (!line.n || line.p[0] != '#')
            any |= packages_add_words(p, line);
    return any;
}

bool packages_read_pip(struct packages *p, struct str text)
{
    bool replaced = false, urls = false;

    for (struct str line; next_line(&text, &line);) {
        struct str key, value;

        if (line.n && (line.p[0] == '#' || line.p[0] == ';'))
            continue;
        if (line.n && is_blank(line.p[0])) { /* more of the value above */
            if (urls)
                packages_add_words(p, line);
            continue;
        }
        urls = false;
        if (!cut_pair(line, '=', &key, &value) && !cut_pair(line, ':', &key, &value))
            continue;
        urls = str_eq(key, STR("index-url")) || str_eq(key, STR("extra-index-url")) ||
               str_eq(key, STR("find-links"));
        if (urls && packages_add_words(p, value))
            replaced |= str_eq(key, STR("index-url"));
    }
    return replaced;
}

bool packages_read_uv(struct packages *p, struct str text)
{
    bool replaced = false;

    for (struct str line; next_line(&text, &line);) {
        struct str key, value;

        if (cut_pair(line, '=', &key, &value) &&
            (str_eq(key, STR("index-url")) || str_eq(key, STR("url"))))
            replaced |= packages_add_url(p, unquote(value)) && str_eq(key, STR("index-url"));
    }
    return replaced;
}

bool packages_read_npm(struct packages *p, struct str text)
{
    bool replaced = false;

    for (struct str line; next_line(&text, &line);) {
        struct str key, value;

        if (!cut_pair(line, '=', &key, &value))
            continue;
        if (!str_eq(key, STR("registry")) &&
            !(str_starts(key, STR("@")) && str_ends(key, STR(":registry"))))
            continue;
        if (packages_add_url(p, unquote(value)))
            replaced |= str_eq(key, STR("registry"));
    }
    return replaced;
}

bool packages_read_cargo(struct packages *p, struct str text)
{
    bool replaced = false;

    for (struct str line; next_line(&text, &line);) {
        struct str key, value;

        if (!cut_pair(line, '=', &key, &value))
            continue;
        if (str_eq(key, STR("index")) || str_eq(key, STR("registry")))
            packages_add_url(p, unquote(value));
        replaced |= str_eq(key, STR("replace-with"));
    }
    return replaced;
}

bool packages_add_proxies(struct packages *p, struct str list)
{
    bool any = false;

    while (list.n) {
        size_t n = 0;

        while (n < list.n && list.p[n] != ',' && list.p[n] != '|')
            n++;
        any |= packages_add_url(p, str_trim((struct str){ list.p, n }));
        n += n < list.n;
        list = (struct str){ list.p + n, list.n - n };
    }
    return any;
}

bool packages_read_go(struct packages *p, struct str text)
{
    bool replaced = false;

    for (struct str line; next_line(&text, &line);) {
        struct str key, value;

        if (cut_pair(line, '=', &key, &value) && str_eq(key, STR("GOPROXY")))
            replaced |= packages_add_proxies(p, value);
    }
    return replaced;
}

bool packages_read_gem(struct packages *p, struct str text)
{
    bool any = false, sources = false;

    for (struct str line; next_line(&text, &line);) {
        struct str item = str_trim(line);

        if (sources && str_starts(item, STR("-")))
            any |= packages_add_url(p, unquote(str_trim((struct str){ item.p + 1, item.n - 1 })));
        else
            sources = str_eq(item, STR(":sources:"));
    }
    return any;
}
