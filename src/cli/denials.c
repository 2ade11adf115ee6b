/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/denials.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "cli/lines.h"
#include "cli/show.h"
#include "cli/verb.h"
#include "lib/json/reader.h"

enum { ACTION_DENIED = 2, LINE_MEMORY = 256 << 10, TEXT_MAX = 4096 };

static void count_shown_denial(struct denials *d, const struct denial *new)
{
    struct denial *l = d->list, *end = d->list + d->n;

    d->total += new->count;
    while (l < end && (l->port != new->port || strcmp(l->host, new->host) != 0 ||
                       strcmp(l->code, new->code) != 0))
        l++;
    if (l < end)
        l->count += new->count;
    else if (d->n < DENIALS_MAX)
        d->list[d->n++] = *new;
}

/* Repeated denials of one kind come as a later event with a count. */
void denials_add(struct denials *d, struct str line)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(LINE_MEMORY);
    const struct json_limits limits = { .bytes = LINE_MEMORY / 4, .depth = 8 };
    const struct json *event;
    struct denial new = { .count = 1 };
    struct str host;
    int64_t port, times;

    if (json_read(line, limits, &a, &event, NULL) < 0 ||
        show_int(event, "action_id", 0) != ACTION_DENIED)
        return;
    host = show_string(event, "dst_endpoint.hostname");
    if (!host.n)
        host = show_string(event, "dst_endpoint.ip");
    if (host.n)
        str_copy(host, new.host, sizeof new.host);
    port = show_int(event, "dst_endpoint.port", 0);
    new.port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
    host = show_string(event, "status_code");
    if (host.n)
        str_copy(host, new.code, sizeof new.code);
    times = show_int(event, "count", 1);
    new.count = times > 0 ? (uint64_t)times : 1;
    count_shown_denial(d, &new);
}

void denials_read(struct denials *d, int fd)
{
    AUTO(lines_done) struct lines lines = LINES_INIT;
    char piece[64 << 10];
    struct str line;
    ssize_t n;

    while ((n = pread(fd, piece, sizeof piece, d->at)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        d->at += n;
        if (lines_feed(&lines, (struct str){ piece, (size_t)n }, NULL) < 0)
            return;
        while (lines_next(&lines, &line))
            denials_add(d, line);
    }
}

static int add_denied_target(const struct denial *l, struct buf *out)
{
    const char *open = strchr(l->host, ':') ? "[" : "", *close = open[0] ? "]" : "";

    if (!l->host[0])
        return buf_addf(out, "an unreadable destination");
    if (!l->port)
        return buf_addf(out, "%s", l->host);
    return buf_addf(out, "%s%s%s:%u", open, l->host, close, l->port);
}

static bool can_be_allowed(const struct denial *l)
{
    return l->host[0] && strcmp(l->code, "policy_denied") == 0;
}

/* A name at an address that is not public. */
static bool can_be_placed(const struct denial *l)
{
    return l->host[0] && !strchr(l->host, ':') &&
           strspn(l->host, "0123456789.") < strlen(l->host) && strcmp(l->code, "ssrf_denied") == 0;
}

/* Of the host's loopback one port is granted, so a lookup of its name leaves that open. */
static const char *find_rest(const struct denial *l)
{
    if (can_be_placed(l))
        return "=ADDRESS";
    return !l->port && strcmp(l->host, "host.sandboxer.internal") == 0 ? ":PORT" : "";
}

static const struct denial *find_denial(const struct denials *d,
                                        bool (*is_meant)(const struct denial *l))
{
    for (size_t i = 0; i < d->n; i++)
        if (is_meant(&d->list[i]))
            return &d->list[i];
    return NULL;
}

static int add_hint(const struct denials *d, struct buf *out)
{
    const struct denial *l = find_denial(d, can_be_allowed);
    int r;

    if (!l)
        l = find_denial(d, can_be_placed);
    if (!l)
        return 0;
    r = buf_addf(out, "; --allow ");
    if (r >= 0)
        r = add_denied_target(l, out);
    return r < 0 ? r : buf_addf(out, "%s would allow %s", find_rest(l), d->n == 1 ? "it" : "that");
}

int denials_text(const struct denials *d, struct buf *out)
{
    int r;

    if (!d->total)
        return 0;
    r = buf_addf(out, "%llu connection%s refused: ", (unsigned long long)d->total,
                 d->total == 1 ? "" : "s");
    for (size_t i = 0; r >= 0 && i < d->n && i < DENIALS_SHOWN; i++) {
        r = i ? buf_addf(out, ", ") : 0;
        if (r >= 0)
            r = add_denied_target(&d->list[i], out);
        if (r >= 0 && d->list[i].code[0])
            r = buf_addf(out, " (%s)", d->list[i].code);
    }
    if (r >= 0 && d->n > DENIALS_SHOWN)
        r = buf_addf(out, ", …");
    return r < 0 ? r : add_hint(d, out);
}

void denials_print(const struct denials *d)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);

    if (denials_text(d, &text) >= 0 && text.n)
        cli_report(STR_FMT, STR_ARG(buf_str(&text)));
}
