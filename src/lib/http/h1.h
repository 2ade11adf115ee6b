/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 heads: one strict parser for server, client and proxy. It allocates and copies
 * nothing: its results are slices of the input.
 *
 * It accepts less than the RFCs allow, since every reading that two programs can differ on is a way
 * to smuggle a request past one of them. Refused: bare LF, lone CR, folded lines, blanks before a
 * colon, control bytes, anything but one blank between the parts of the first line, a missing,
 * repeated or malformed Host, a repeated, signed, zero-padded or listed Content-Length, it together
 * with Transfer-Encoding, a tab beside the value of any of the three, any transfer coding but
 * `chunked`, `Content_Length` and its like, HTTP/1.0 with Transfer-Encoding or with the body of a
 * GET, HEAD or DELETE, CONNECT with a body, a second Upgrade, names of fields beyond 255 bytes, and
 * hop-by-hop lists that name framing fields. */
#ifndef LIB_HTTP_H1_H
#define LIB_HTTP_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    H1_HEAD_MAX = 32 << 10,  /* bytes of a head, with its empty line: 431 */
    H1_TARGET_MAX = 8 << 10, /* bytes of a request target: 414 */
    H1_FIELDS_MAX = 100,     /* header fields of a head: 431 */
    H1_NAME_MAX = 255,       /* bytes of a field's name: 431 */
    H1_METHOD_MAX = 32,      /* bytes of a method: 501 */
    H1_HOST_MAX = 255,       /* bytes of a host name: 400 */
};

enum h1_method {
    H1_OTHER, /* any other token, such as `get` */
    H1_GET,
    H1_HEAD,
    H1_POST,
    H1_PUT,
    H1_DELETE,
    H1_PATCH,
    H1_OPTIONS,
    H1_CONNECT,
    H1_TRACE,
};

enum h1_form {
    H1_ORIGIN,    /* /path?query */
    H1_ABSOLUTE,  /* scheme://authority/path?query, to a proxy */
    H1_AUTHORITY, /* host:port, with CONNECT and only there */
    H1_ASTERISK,  /* *, with OPTIONS and only there */
};

enum h1_framing {
    H1_EMPTY,       /* no body follows */
    H1_LENGTH,      /* `length` bytes follow */
    H1_CHUNKED,     /* chunks follow */
    H1_UNTIL_CLOSE, /* everything until the end of the stream; responses only */
};

struct h1_field {
    struct str name, value; /* value without blanks around it */
};

/* A host as Host, CONNECT and absolute targets write it. No userinfo, no percent-encoding,
 * ASCII. */
struct h1_host {
    struct str name; /* an IPv6 address without its brackets */
    bool is_ipv6;
    uint16_t port; /* 0: not written, or nothing behind the colon; a written 0 is refused */
};

/* The common part of both kinds of head. */
struct h1_head {
    int minor; /* HTTP/1.minor: 0 or 1 */
    size_t n;
    struct h1_field fields[H1_FIELDS_MAX];
    enum h1_framing framing;
    uint64_t length;  /* of H1_LENGTH; at most INT64_MAX */
    bool keep_alive;  /* the connection can carry another message; never with HTTP/1.0 */
    bool upgrade;     /* Connection names `upgrade` and one Upgrade field is there */
    struct str proto; /* that field's value */
};

struct h1_request {
    struct h1_head head;
    enum h1_method method;
    struct str method_text;
    enum h1_form form;
    struct str target;     /* as on the wire */
    struct str scheme;     /* of H1_ABSOLUTE, lower case */
    struct str path;       /* with its query: of H1_ORIGIN and H1_ABSOLUTE; there it may be empty */
    struct h1_host to;     /* of H1_ABSOLUTE and H1_AUTHORITY (there with a port) */
    struct h1_host host;   /* of the Host field; its name is empty without one (HTTP/1.0) */
    bool expects_continue; /* Expect: 100-continue; HTTP/1.0 cannot */
};

struct h1_response {
    struct h1_head head;
    int status; /* 100 to 599 */
    struct str reason;
};

/* Limits may be lowered; they cannot be raised above the constants. */
struct h1_limits {
    size_t head, target, fields;
};
#define H1_LIMITS ((struct h1_limits){ H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX })

/* Progress over a head that arrives in pieces: every byte is looked at once until the head is
 * there. Zeroed before each head. */
struct h1_scan {
    size_t seen_; /* bytes looked at */
    size_t line_; /* where the current line begins */
    bool first_done_;
};

/* `in` starts at the head's first byte and holds everything that has arrived of it, maybe more.
 * Returns the head's length in bytes, 0 if more is needed, or an error; then *status is what a
 * server answers (400, 414, 417, 431, 501, 505). Messages hold no bytes of the input. */
int h1_parse_request(struct h1_scan *s, struct str in, const struct h1_limits *limits,
                     struct h1_request *ret, int *status, struct err *e);

/* The head's bytes were copied from `from` to `to`: lets all slices point there. */
void h1_move_request(struct h1_request *q, const char *from, const char *to);

/* `asked` is the request's method: it decides whether a body follows. A 1xx is a head of its own,
 * without a body; the final one follows it (but for 101). */
int h1_parse_response(struct h1_scan *s, struct str in, const struct h1_limits *limits,
                      enum h1_method asked, struct h1_response *ret, struct err *e);

/* The first field of that name, case-insensitive; NULL if absent. */
const struct h1_field *h1_find(const struct h1_head *h, struct str name);
struct str h1_value(const struct h1_head *h, struct str name); /* empty, p == NULL: none */
size_t h1_count(const struct h1_head *h, struct str name);

/* Whether a comma-separated list (Connection, Upgrade, Accept) names the token,
 * case-insensitive. */
bool h1_list_has(struct str list, struct str token);

/* host, host:, host:port, [v6]:port. */
bool h1_parse_host(struct str s, struct h1_host *ret);
/* The same place; a port that is not written is default_port. */
bool h1_host_same(struct h1_host a, struct h1_host b, uint16_t default_port);

bool h1_same(struct str a, struct str b); /* equal but for ASCII case */
bool h1_is_token(struct str s);
bool h1_is_value(
    struct str s); /* may be sent as a field's value: no control bytes, no blank ends */
enum h1_method h1_method_of(struct str token);
const char *h1_reason(int status); /* "Not Found"; "Unknown" for what has no name */

#endif
