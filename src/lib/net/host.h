/* SPDX-License-Identifier: Apache-2.0 */
/* A destination as a client wrote it, in one canonical form, so that policy, DNS, SNI, audit and
 * dialling never see two spellings of one place.
 *
 * Names are ASCII, lower case, labels of letters, digits, '-' and '_' (anywhere, as in DNS) of at
 * most 63 bytes, 253 bytes in all. The client converts IDNs to A-labels.
 * One dot at the end is dropped: "example.com." is "example.com" everywhere. The last label does
 * not begin with a digit, so no resolver can take a name for an address; text whose last label does
 * is either an IPv4 address in its canonical spelling or refused. */
#ifndef LIB_NET_HOST_H
#define LIB_NET_HOST_H

#include "base/err.h"
#include "base/str.h"
#include "lib/net/address.h"

enum { HOST_MAX = 253, HOST_LABEL_MAX = 63 };

struct host {
    bool is_address;
    struct address address;  /* if is_address */
    char name[HOST_MAX + 1]; /* always: the name, or the address as address_text() has it */
};

/* `bracketed`: s was between '[' and ']', which are not part of it: an IPv6 address without a
 * zone, nothing else. Without brackets: a name or an IPv4 address, no IPv6. Messages hold no bytes
 * of the input. */
int host_parse(struct str s, bool bracketed, struct host *ret, struct err *e);

/* host, host:port, [v6], [v6]:port. Ports are 1 to 65535, without sign or leading zero. Without a
 * port it is default_port, or an error if that is 0. A colon must be followed by a port. */
int authority_parse(struct str s, uint16_t default_port, struct host *ret, uint16_t *ret_port,
                    struct err *e);

/* The name of the host's loopback in a sandbox. */
#define HOST_INSIDE "host.sandboxer.internal"
/* Whether a canonical name means that loopback: HOST_INSIDE, or "localhost" where it is asked for
 * outside of the sandbox's own. Neither is ever looked up. */
bool host_names_loopback(struct str name);

/* Whether `name` is such a name and `at` a loopback address, or another such name. */
bool host_calls_loopback(const struct host *name, const struct host *at);

/* A metadata service by its address or by one of its names. */
bool host_is_metadata(const struct host *h);

#endif
