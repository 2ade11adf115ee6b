/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/package_hosts/package_hosts.h"

#include <stdio.h>

#include "base/own.h"

static bool add_host(struct package_hosts *p, const struct host *h, uint16_t port)
{
    const char *open = h->is_address && h->address.v6 ? "[" : "", *close = open[0] ? "]" : "";
    char text[PACKAGE_HOSTS_TEXT];

    snprintf(text, sizeof text, "%s%s%s:%u", open, h->name, close, port);
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->hosts[i], text) == 0) {
            p->own[i] |= p->trusted_;
            return true;
        }
    if (p->n == PACKAGE_HOSTS_HOSTS_MAX)
        return false;
    p->own[p->n] = p->trusted_;
    memcpy(p->hosts[p->n++], text, sizeof text);
    return true;
}

/* The authority of a URL, without user and password. */
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

/* The operator has not reviewed the configuration in an image, so it must not name this machine,
 * loopback, addresses of surrounding networks, or a destination that no policy may grant. */
static bool is_acceptable(const struct package_hosts *p, const struct host *h, uint16_t port)
{
    bool local = h->is_address ? address_classify(&h->address) != ADDRESS_PUBLIC
                               : host_names_loopback(str_from(h->name));

    return (p->trusted_ || !local) && !host_is_metadata(h) && !port_control_plane(port);
}

bool package_hosts_add_url(struct package_hosts *p, struct str url)
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

static bool is_config_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Returns the next word, empty at the end, and advances the rest. */
static struct str next_config_word(struct str *rest)
{
    size_t from = 0, to;

    while (from < rest->n && is_config_blank(rest->p[from]))
        from++;
    for (to = from; to < rest->n && !is_config_blank(rest->p[to]); to++)
        ;
    struct str word = { rest->p + from, to - from };

    *rest = (struct str){ rest->p + to, rest->n - to };
    return word;
}

static bool next_config_line(struct str *rest, struct str *ret)
{
    if (!rest->p || !rest->n)
        return false;
    *rest = str_cut(*rest, '\n', ret);
    return true;
}

bool package_hosts_add_words(struct package_hosts *p, struct str words)
{
    bool any = false;

    for (struct str word; (word = next_config_word(&words)).n;)
        any |= package_hosts_add_url(p, word);
    return any;
}

/* Splits "key = value" or "key: value". False without the sign. */
static bool cut_pair(struct str line, char sign, struct str *key, struct str *value)
{
    *value = str_cut(line, sign, key);
    *key = str_trim(*key);
    if (!value->p)
        return false;
    *value = str_trim(*value);
    return true;
}

/* The next "key = value" of a text; skips other lines. */
static bool next_pair(struct str *text, struct str *key, struct str *value)
{
    struct str line;

    while (next_config_line(text, &line))
        if (cut_pair(line, '=', key, value))
            return true;
    return false;
}

static bool is_key(struct str s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static struct str strip_quotes(struct str s)
{
    if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0])
        return (struct str){ s.p + 1, s.n - 2 };
    return s;
}

/* ---- the formats ---- */

bool package_hosts_read_apt(struct package_hosts *p, struct str text)
{
    bool any = false;

    for (struct str line; next_config_line(&text, &line);) {
        struct str word = next_config_word(&line);

        if (!str_eq(word, STR("deb")) && !str_eq(word, STR("deb-src")))
            continue;
        word = next_config_word(&line);
        while (word.n && str_starts(word, STR("[")) && !str_ends(word, STR("]")))
            for (word = next_config_word(&line); word.n && !str_ends(word, STR("]"));)
                word = next_config_word(&line);
        if (str_ends(word, STR("]")))
            word = next_config_word(&line);
        any |= package_hosts_add_url(p, word);
    }
    return any;
}

/* Adds the URIs of one stanza, unless it is disabled. */
static bool read_stanza(struct package_hosts *p, struct str stanza)
{
    bool any = false, uris = false;
    struct str text = stanza, line, key, value;

    while (next_config_line(&text, &line))
        if (line.n && !is_config_blank(line.p[0]) && cut_pair(line, ':', &key, &value) &&
            is_key(key, "enabled") && (is_key(value, "no") || is_key(value, "false")))
            return false;
    while (next_config_line(&stanza, &line)) {
        if (line.n && line.p[0] == '#')
            continue;
        if (line.n && is_config_blank(line.p[0])) {
            any |= uris && package_hosts_add_words(p, line);
            continue;
        }
        uris = cut_pair(line, ':', &key, &value) && is_key(key, "uris");
        any |= uris && package_hosts_add_words(p, value);
    }
    return any;
}

bool package_hosts_read_deb822(struct package_hosts *p, struct str text)
{
    bool any = false;

    while (text.n) {
        struct str stanza = { text.p, 0 }, line;

        while (next_config_line(&text, &line) && str_trim(line).n)
            stanza.n = (size_t)(line.p + line.n - stanza.p);
        any |= read_stanza(p, stanza);
    }
    return any;
}

bool package_hosts_read_list(struct package_hosts *p, struct str text)
{
    bool any = false;

    for (struct str line; next_config_line(&text, &line);)
        if (!line.n || line.p[0] != '#')
            any |= package_hosts_add_words(p, line);
    return any;
}

bool package_hosts_read_pip(struct package_hosts *p, struct str text)
{
    bool replaced = false, urls = false;

    for (struct str line; next_config_line(&text, &line);) {
        struct str key, value;

        if (line.n && (line.p[0] == '#' || line.p[0] == ';'))
            continue;
        if (line.n && is_config_blank(line.p[0])) { /* continuation of the value above */
            if (urls)
                package_hosts_add_words(p, line);
            continue;
        }
        urls = false;
        if (!cut_pair(line, '=', &key, &value) && !cut_pair(line, ':', &key, &value))
            continue;
        urls = str_eq(key, STR("index-url")) || str_eq(key, STR("extra-index-url")) ||
               str_eq(key, STR("find-links"));
        if (urls && package_hosts_add_words(p, value))
            replaced |= str_eq(key, STR("index-url"));
    }
    return replaced;
}

bool package_hosts_read_uv(struct package_hosts *p, struct str text)
{
    bool replaced = false;

    for (struct str key, value; next_pair(&text, &key, &value);)
        if (str_eq(key, STR("index-url")) || str_eq(key, STR("url")))
            replaced |=
                package_hosts_add_url(p, strip_quotes(value)) && str_eq(key, STR("index-url"));
    return replaced;
}

bool package_hosts_read_npm(struct package_hosts *p, struct str text)
{
    bool replaced = false;

    for (struct str key, value; next_pair(&text, &key, &value);)
        if (str_eq(key, STR("registry")) ||
            (str_starts(key, STR("@")) && str_ends(key, STR(":registry"))))
            replaced |=
                package_hosts_add_url(p, strip_quotes(value)) && str_eq(key, STR("registry"));
    return replaced;
}

bool package_hosts_read_cargo(struct package_hosts *p, struct str text)
{
    bool replaced = false;

    for (struct str key, value; next_pair(&text, &key, &value);) {
        if (str_eq(key, STR("index")) || str_eq(key, STR("registry")))
            package_hosts_add_url(p, strip_quotes(value));
        replaced |= str_eq(key, STR("replace-with"));
    }
    return replaced;
}

bool package_hosts_add_proxies(struct package_hosts *p, struct str list)
{
    bool any = false;

    while (list.n) {
        size_t n = 0;

        while (n < list.n && list.p[n] != ',' && list.p[n] != '|')
            n++;
        any |= package_hosts_add_url(p, str_trim((struct str){ list.p, n }));
        n += n < list.n;
        list = (struct str){ list.p + n, list.n - n };
    }
    return any;
}

bool package_hosts_read_go(struct package_hosts *p, struct str text)
{
    bool replaced = false;

    for (struct str key, value; next_pair(&text, &key, &value);)
        if (str_eq(key, STR("GOPROXY")))
            replaced |= package_hosts_add_proxies(p, value);
    return replaced;
}

bool package_hosts_read_gem(struct package_hosts *p, struct str text)
{
    bool any = false, sources = false;

    for (struct str line; next_config_line(&text, &line);) {
        struct str item = str_trim(line);

        if (sources && str_starts(item, STR("-")))
            any |= package_hosts_add_url(
                p, strip_quotes(str_trim((struct str){ item.p + 1, item.n - 1 })));
        else
            sources = str_eq(item, STR(":sources:"));
    }
    return any;
}
