/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SHA256 STR("sha256:")

enum { HEX_DIGITS = 64 };

bool oci_digest_valid(struct str s)
{
    if (!str_starts(s, SHA256) || s.n != SHA256.n + HEX_DIGITS)
        return false;
    for (size_t i = SHA256.n; i < s.n; i++)
        if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    return true;
}

struct str oci_digest_hex(const char *digest)
{
    return str_from(digest + SHA256.n);
}

/* The length of the separator at `at` between two runs of letters and digits: ".", "_", "__" or
 * dashes. */
static size_t separator_length(struct str s, size_t at)
{
    size_t n = 0;

    if (at < s.n && s.p[at] == '.')
        return 1;
    while (at + n < s.n && s.p[at + n] == '_' && n < 2)
        n++;
    if (n > 0)
        return n;
    while (at + n < s.n && s.p[at + n] == '-')
        n++;
    return n;
}

static bool is_component(struct str s)
{
    size_t at = 0;

    for (;;) {
        size_t from = at, gap;

        while (at < s.n &&
               ((s.p[at] >= 'a' && s.p[at] <= 'z') || (s.p[at] >= '0' && s.p[at] <= '9')))
            at++;
        if (at == from)
            return false;
        if (at == s.n)
            return true;
        gap = separator_length(s, at);
        if (gap == 0)
            return false;
        at += gap;
    }
}

static int read_image_path(struct str path, struct oci_reference *ret, struct err *e)
{
    struct str rest = path, component;

    if (!str_copy(path, ret->path, sizeof ret->path))
        return err_set(e, ERR_INVALID, "the image's name has more than %d bytes", OCI_PATH_MAX - 1);
    do {
        rest = str_cut(rest, '/', &component);
        if (!is_component(component))
            return err_set(e, ERR_INVALID,
                           "the image's name must be lower case letters and digits, with '.', '_', "
                           "'-' and '/' between them");
    } while (rest.p);
    return 0;
}

static bool is_tag(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_' &&
            (i == 0 || (s.p[i] != '.' && s.p[i] != '-')))
            return false;
    return s.n > 0 && s.n < OCI_TAG_MAX;
}

static bool is_host(struct str first)
{
    return str_find(first, '.') < first.n || str_find(first, ':') < first.n ||
           str_eq(first, STR("localhost"));
}

/* Brings the host into its canonical spelling. */
static int read_registry_host(struct str text, struct oci_reference *ret, struct err *e)
{
    struct host h;
    uint16_t port;
    int r = authority_parse(text, 443, &h, &port, e), n;
    bool v6, has_port;

    if (r < 0)
        return err_wrap(e, r, "the registry's host");
    v6 = text.p[0] == '[';
    has_port = v6 ? text.p[text.n - 1] != ']' : str_find(text, ':') < text.n;
    n = snprintf(ret->host, sizeof ret->host, "%s%s%s", v6 ? "[" : "", h.name, v6 ? "]" : "");
    if (has_port)
        snprintf(ret->host + n, sizeof ret->host - (size_t)n, ":%u", (unsigned)port);
    if (!is_host(str_from(ret->host))) /* was only a host because of a trailing dot */
        return err_set(e, ERR_INVALID, "the registry's host must have a dot or a port");
    return 0;
}

/* The tag begins at the colon behind the last slash. */
static struct str cut_tag(struct str name, struct str *ret_tag)
{
    for (size_t i = name.n; i > 0 && name.p[i - 1] != '/'; i--)
        if (name.p[i - 1] == ':') {
            *ret_tag = (struct str){ name.p + i, name.n - i };
            return (struct str){ name.p, i - 1 };
        }
    *ret_tag = (struct str){ NULL, 0 };
    return name;
}

int oci_reference_parse(struct str text, struct oci_reference *ret, struct err *e)
{
    struct oci_reference out = { 0 };
    struct str name, tag, first, rest, digest = str_cut(text, '@', &name);
    int r = 0;

    if (digest.p && !oci_digest_valid(digest))
        return err_set(e, ERR_INVALID,
                       "the digest after '@' must be sha256: and 64 hexadecimal digits");
    if (digest.p)
        str_copy(digest, out.digest, sizeof out.digest);
    name = cut_tag(name, &tag);
    if (tag.p && !is_tag(tag))
        return err_set(e, ERR_INVALID,
                       "the tag must be at most %d letters, digits, '_', '.' and '-'",
                       OCI_TAG_MAX - 1);
    str_copy(tag.p ? tag : digest.p ? STR("") : STR("latest"), out.tag, sizeof out.tag);
    rest = str_cut(name, '/', &first);
    if (rest.p && is_host(first)) {
        r = read_registry_host(first, &out, e);
        name = rest;
    }
    if (r >= 0)
        r = read_image_path(name, &out, e);
    if (r >= 0)
        *ret = out;
    return r;
}

int oci_reference_place(const struct oci_reference *r, struct oci_place *ret, struct err *e)
{
    bool hub = strcmp(r->host, "docker.io") == 0 || strcmp(r->host, "index.docker.io") == 0;
    struct oci_place out = { 0 };
    int n = snprintf(out.path, sizeof out.path, "%s%s",
                     hub && !strchr(r->path, '/') ? "library/" : "", r->path);

    if (n >= (int)sizeof out.path)
        return err_set(e, ERR_INVALID, "the image's name has more than %d bytes", OCI_PATH_MAX - 1);
    snprintf(out.host, sizeof out.host, "%s", hub ? "registry-1.docker.io" : r->host);
    *ret = out;
    return 0;
}

void oci_reference_text(const struct oci_reference *r, char out[static OCI_REFERENCE_MAX])
{
    snprintf(out, OCI_REFERENCE_MAX, "%s%s%s%s%s%s%s", r->host, r->host[0] ? "/" : "", r->path,
             r->tag[0] ? ":" : "", r->tag, r->digest[0] ? "@" : "", r->digest);
}
