/* SPDX-License-Identifier: Apache-2.0 */
/* Collects denials from the events of an egress worker: each destination once, with a count. */
#ifndef CLI_DENIALS_H
#define CLI_DENIALS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

enum { DENIALS_MAX = 16, DENIALS_SHOWN = 4 };

struct denial {
    char host[256]; /* a name or an address */
    uint16_t port;  /* 0: only the name was looked up, or the event has no port */
    char code[64];
    uint64_t count;
};

struct denials {
    off_t at; /* how far the record has been read */
    struct denial list[DENIALS_MAX];
    size_t n;
    uint64_t total; /* all, also those that the list has no room for */
};

/* Adds one event; lines that are not denials are ignored. */
void denials_add(struct denials *d, struct str line);

/* All whole lines that are in the file from d->at. */
void denials_read(struct denials *d, int fd);

/* "2 connections refused: evil.example:443 (policy_denied); --allow … would allow it";
 * nothing if there was none. */
int denials_text(const struct denials *d, struct buf *out);
void denials_print(const struct denials *d); /* on stderr */

#endif
