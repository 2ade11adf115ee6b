/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/net/host.h"

#include "base/own.h"

static bool is_host_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The byte in lower case, or 0 if it is not allowed in a name. */
static char canonical_byte(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (c >= 'a' && c <= 'z') || is_host_digit(c) || c == '-' || c == '_' ? c : '\0';
}

static int check_host_name(struct str name, struct err *e)
{
    struct str label = { 0 };

    if (name.n > HOST_MAX)
        return err_set(e, ERR_INVALID, "the host name is longer than %d bytes", HOST_MAX);
    for (struct str rest = name; rest.p;) {
        rest = str_cut(rest, '.', &label);
        if (label.n == 0)
            return err_set(e, ERR_INVALID, "the host name has an empty label");
        if (label.n > HOST_LABEL_MAX)
            return err_set(e, ERR_INVALID, "a label of the host name is longer than %d bytes",
                           HOST_LABEL_MAX);
        for (size_t i = 0; i < label.n; i++)
            if (!canonical_byte(label.p[i]))
                return err_set(
                    e, ERR_INVALID,
                    "byte 0x%02x is not allowed in a host name; write IDNs as A-labels (xn--)",
                    (unsigned char)label.p[i]);
    }
    if (label.n > 0 && is_host_digit(label.p[0]))
        return err_set(e, ERR_INVALID,
                       "the host is neither an IPv4 address as a.b.c.d nor a name: its last label "
                       "begins with a digit");
    return 0;
}

int host_parse(struct str s, bool bracketed, struct host *ret, struct err *e)
{
    char text[ADDRESS_TEXT_MAX];
    struct address a;
    bool is_address;
    int r;

    if (s.n == 0)
        return err_set(e, ERR_INVALID, "the host is empty");
    is_address = address_parse(s, &a);
    if (bracketed && (!is_address || !a.v6))
        return err_set(e, ERR_INVALID,
                       "the text in brackets is not an IPv6 address without a zone");
    if (!bracketed && is_address && a.v6)
        return err_set(e, ERR_INVALID, "write an IPv6 address in brackets: [::1]");
    if (is_address) {
        *ret = (struct host){ .is_address = true, .address = a };
        str_copy(address_text(&a, text), ret->name, sizeof ret->name);
        return 0;
    }
    if (s.p[s.n - 1] == '.')
        s.n--;
    r = check_host_name(s, e);
    if (r < 0)
        return r;
    *ret = (struct host){ 0 };
    for (size_t i = 0; i < s.n; i++)
        ret->name[i] = s.p[i] == '.' ? '.' : canonical_byte(s.p[i]);
    return 0;
}

/* Splits off the host; *rest is empty or begins with what follows it. */
static int cut_host(struct str s, struct str *host, struct str *rest, struct err *e)
{
    bool bracketed = s.n > 0 && s.p[0] == '[';
    size_t end = str_find(s, bracketed ? ']' : ':');

    if (s.n == 0)
        return err_set(e, ERR_INVALID, "the host is empty");
    if (bracketed && end == s.n)
        return err_set(e, ERR_INVALID, "the host's '[' is not closed");
    *host = (struct str){ s.p + bracketed, end - bracketed };
    end += bracketed;
    *rest = (struct str){ s.p + end, s.n - end };
    return bracketed;
}

int authority_parse(struct str s, uint16_t default_port, struct host *ret, uint16_t *ret_port,
                    struct err *e)
{
    struct str host, rest;
    struct host h;
    uint64_t port = default_port;
    int bracketed = cut_host(s, &host, &rest, e), r = bracketed;

    if (r >= 0)
        r = host_parse(host, bracketed, &h, e);
    if (r < 0)
        return r;
    if (rest.n == 0 && default_port == 0)
        return err_set(e, ERR_INVALID, "the port is missing: write HOST:PORT");
    if (rest.n > 0 && rest.p[0] != ':')
        return err_set(e, ERR_INVALID, "only a port may follow the host's ']'");
    if (rest.n > 0 && (rest.n > 6 || !str_to_u64((struct str){ rest.p + 1, rest.n - 1 }, &port) ||
                       rest.p[1] == '0' || port > UINT16_MAX))
        return err_set(e, ERR_INVALID, "the port is not a number from 1 to 65535");
    *ret = h;
    *ret_port = (uint16_t)port;
    return 0;
}

bool host_names_loopback(struct str name)
{
    return str_eq(name, STR("localhost")) || str_eq(name, STR(HOST_INSIDE));
}

bool host_calls_loopback(const struct host *name, const struct host *at)
{
    return !name->is_address && host_names_loopback(str_from(name->name)) &&
           (at->is_address ? address_classify(&at->address) == ADDRESS_LOOPBACK
                           : host_names_loopback(str_from(at->name)));
}

bool host_is_metadata(const struct host *h)
{
    static const char *const names[] = {
        "instance-data",    "instance-data.ec2.internal", "metadata",
        "metadata.goog",    "metadata.google.internal",   "metadata.tencentyun.com",
        "rancher-metadata",
    };

    if (h->is_address)
        return !address_grantable(&h->address);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(h->name, names[i]) == 0)
            return true;
    return false;
}
