/* SPDX-License-Identifier: Apache-2.0 */
/* Between the control plane and the fetch process: one message, one packet, on one seqpacket
 * socket.
 *
 * Layouts are in host byte order. fetcher_check() checks a message completely before anything else
 * looks at it, in both directions. The control plane trusts a fetch process only for the
 * contents of answers: sizes are bounded, ids are those of running requests, and each type is valid
 * only in the states of a request that this table names.
 *
 *     to the process                               then
 *     REQUEST  the request, and the number of      MORE follows at once, until they are complete
 *              bytes of details that follow
 *     MORE     some of these bytes
 *     CREDIT   so many bytes of pieces were used   the process may send as many more
 *     CANCEL   the answer is unwanted              END, unless it was sent before
 *     PING     are you there?                      PONG with the same id
 *
 *     from the process                             valid
 *     ANSWER   status and headers                  once, before any PIECE
 *     PIECE    bytes of the body                   after ANSWER, within the window
 *     END      how the request ended, and where    once for each request; ERR_OK only after ANSWER
 *              a redirect leads
 *     PONG
 *     FAILED   the process cannot serve, and why   at any time; nothing follows
 *
 * A request may have FETCHER_WINDOW bytes of pieces on their way; CREDIT allows more. So a consumer
 * that is slow stops the reading of its own answer, and of no other. */
#ifndef ENGINE_FETCHER_WIRE_H
#define ENGINE_FETCHER_WIRE_H

#include <stdint.h>

#include "base/buf.h"
#include "lib/fetch/request.h"

enum {
    FETCHER_MAGIC = 0x54454653, /* "SFET" */
    FETCHER_VERSION = 1,
    FETCHER_REQUESTS_MAX = 128,      /* running in one process */
    FETCHER_PIECE_MAX = 32 << 10,    /* bytes in MORE and PIECE */
    FETCHER_WINDOW = 512 << 10,      /* bytes of pieces that were sent and not used */
    FETCHER_BODY_MAX = 4 << 20,      /* of a request */
    FETCHER_AUTHORITY_MAX = 1 << 20, /* bytes of certificates that come with a request */
};

enum fetcher_type {
    FETCHER_REQUEST = 1, /* + a descriptor of certificates if FETCHER_HAS_CERTIFICATES */
    FETCHER_MORE,
    FETCHER_CREDIT,
    FETCHER_CANCEL,
    FETCHER_PING,
    FETCHER_ANSWER = 64,
    FETCHER_PIECE,
    FETCHER_END,
    FETCHER_PONG,
    FETCHER_FAILED,
};

enum fetcher_side { FETCHER_TO_PROCESS, FETCHER_FROM_PROCESS };

struct fetcher_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t size; /* of the whole message */
    uint32_t pad;
    uint64_t id; /* of the request, or the ping; FAILED: 0 */
};

enum fetcher_flag {
    FETCHER_HAS_CERTIFICATES = 1 << 0,
    FETCHER_WANTS_PIECES = 1 << 1, /* of status 200 and 206: max_body is for other bodies */
    FETCHER_FLAGS_ALL_ = (1 << 2) - 1,
};

/* Details, in this order: the URL, headers (struct fetcher_field and two texts for each), addresses
 * (struct fetcher_address), the body. */
struct fetcher_request {
    struct fetcher_head head;
    uint32_t method;    /* enum fetch_method */
    uint32_t reach;     /* enum fetch_reach */
    uint32_t flags;     /* enum fetcher_flag */
    uint32_t redirects; /* at most FETCHER_REDIRECTS_MAX */
    uint32_t url_n, headers_n, header_count, address_count;
    uint64_t body_n;
    uint64_t max_body;
    int64_t timeout, silence; /* nanoseconds */
};

enum { FETCHER_REDIRECTS_MAX = 20 };

struct fetcher_field {
    uint32_t name_n, value_n;
};

struct fetcher_address {
    uint8_t v6;
    uint8_t bytes[16];
};

/* MORE, PIECE */
struct fetcher_bytes {
    struct fetcher_head head;
    char bytes[FETCHER_PIECE_MAX]; /* 1 or more of them */
};

struct fetcher_credit {
    struct fetcher_head head;
    uint64_t bytes;
};

/* Behind it: headers as in a request. */
struct fetcher_answer {
    struct fetcher_head head;
    uint32_t status;
    uint32_t header_count, headers_n, pad;
};

enum {
    FETCHER_HEADERS_MAX = FETCH_HEAD_MAX + FETCH_HEADERS_MAX * (int)sizeof(struct fetcher_field),
    FETCHER_ANSWER_MAX = (int)sizeof(struct fetcher_answer) + FETCHER_HEADERS_MAX,
    FETCHER_MESSAGE_MAX = FETCHER_ANSWER_MAX,
};

/* END, FAILED */
struct fetcher_end {
    struct fetcher_head head;
    uint32_t code;       /* enum err_code; FAILED: not ERR_OK */
    uint32_t redirect_n; /* 0 unless the code is ERR_OK */
    char msg[232];
    char redirect[FETCH_URL_MAX]; /* as much of it as there is */
};

/* Room for any message, aligned. */
union fetcher_message {
    struct fetcher_head head;
    struct fetcher_request request;
    struct fetcher_bytes bytes;
    struct fetcher_credit credit;
    struct fetcher_answer answer;
    struct fetcher_end end;
    char room[FETCHER_MESSAGE_MAX];
};

void fetcher_fill(struct fetcher_head *h, enum fetcher_type type, uint64_t id, size_t size);

/* Magic, version, a type of that direction, sizes that agree, numbers within their limits, headers
 * and texts that are valid. */
int fetcher_check(const void *message, size_t n, enum fetcher_side side, struct err *e);

/* How many bytes of details belong to a checked REQUEST. */
size_t fetcher_details_size(const struct fetcher_request *m);

/* Parses the details: everything in *ret borrows from `details` and the two arrays, which have
 * room for FETCH_HEADERS_MAX and FETCH_ADDRESSES_MAX. The URL is not terminated: *ret_url. Checks
 * everything but what fetch_request_check() does. */
int fetcher_read_details(const struct fetcher_request *m, struct str details,
                         struct fetch_header *headers, struct address *addresses,
                         struct str *ret_url, struct fetch_request *ret, struct err *e);
int fetcher_write_details(const struct fetch_request *r, struct fetcher_request *m,
                          struct buf *details, struct err *e);

/* A checked ANSWER; the array has room for FETCH_HEADERS_MAX. */
void fetcher_read_answer(const struct fetcher_answer *m, struct fetch_header *headers,
                         struct fetch_answer *ret);
/* Appends the message; leaves out headers that fetcher_check() would refuse. */
int fetcher_write_answer(const struct fetch_answer *a, uint64_t id, struct buf *out);

/* END or FAILED: the size of the message. A redirect that fetcher_check() would refuse is left
 * out. */
size_t fetcher_write_end(struct fetcher_end *m, enum fetcher_type type, uint64_t id,
                         const struct err *e, struct str redirect);

#endif
