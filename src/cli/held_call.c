/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/held_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/own.h"
#include "cli/terminal.h"
#include "lib/http/h1.h"
#include "lib/json/writer.h"

enum {
    ARGS_MAX = 2 << 20,  /* bytes of a value, as text */
    SHOWN_MAX = 4 << 10, /* … of which these are escaped, and some lines of them shown */
    ID_SHOWN = 64,
    TITLE_WIDTH = 12, /* with the blanks around it */
    VALUE_LEAST = 20, /* characters of a value in a line, however narrow the terminal is */
    DESCRIPTION_MAX = 64 << 10,
};

#define DECISION_PATIENCE (30 * NS_PER_S)

/* --- formats --- */

void show_compact(const struct json *v, int64_t now, struct buf *out)
{
    AUTO(buf_done) struct buf text = BUF_INIT(ARGS_MAX);
    struct json_writer w;

    if (!v)
        return;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    if (json_writer_finish(&w, NULL) < 0)
        buf_add(out, STR("(too large: see -o json)"));
    else
        buf_add(out, (struct str){ text.p, text.n < SHOWN_MAX ? text.n : SHOWN_MAX });
}

void show_held_caller(const struct json *v, int64_t now, struct buf *out)
{
    struct str owner = show_string(v, "owner"), peer = show_string(v, "peer");

    buf_addf(out, STR_FMT, STR_ARG(owner));
    if (peer.n)
        buf_addf(out, " (" STR_FMT ")", STR_ARG(peer));
}

/* Each interface names the network in its own member. */
void show_wanted_network(const struct json *v, int64_t now, struct buf *out)
{
    static const char *const members[] = { "args.capabilities.network", "args.egress",
                                           "args.network", "args.allow" };

    for (size_t i = 0; i < COUNT_OF(members); i++) {
        const struct json *wanted = show_at(v, members[i]);

        if (!wanted)
            continue;
        if (out->n)
            buf_add(out, STR("; "));
        (wanted->type == JSON_OBJECT ? show_compact : show_text)(wanted, now, out);
    }
}

static void show_held_tier(const struct json *v, int64_t now, struct buf *out)
{
    struct str rule = show_string(v, "rule");

    buf_addf(out, "%llu of 4", show_count(v, "tier"));
    if (rule.n)
        buf_addf(out, ", " STR_FMT, STR_ARG(rule));
}

/* --- the description --- */

static const struct {
    const char *title, *path;
    show_fn *show;
    unsigned lines; /* at most, of its value */
} held_lines[] = {
    { "caller", "", show_held_caller, 1 },    { "sandbox", "sandbox_id", show_text, 1 },
    { "request", "request", show_text, 2 },   { "network", "", show_wanted_network, 4 },
    { "arguments", "args", show_compact, 4 }, { "tier", "", show_held_tier, 1 },
    { "reason", "reason", show_text, 2 },     { "expires", "expires_at", show_until, 1 },
};

/* The bytes of the first `most` characters. */
static size_t cut_characters(struct str s, size_t most)
{
    size_t at = 0, seen = 0;

    while (at < s.n) {
        seen += ((unsigned char)s.p[at] & 0xC0) != 0x80;
        if (seen > most)
            break;
        at++;
    }
    return at;
}

/* A title and a value in lines, the last of which ends with "…" if there is more. False: there
 * is. */
static bool add_held_value(struct buf *out, const char *title, struct str value, unsigned width,
                           unsigned lines)
{
    size_t room = width > TITLE_WIDTH + VALUE_LEAST ? width - TITLE_WIDTH : VALUE_LEAST;

    for (unsigned i = 0; i < lines && value.n; i++) {
        size_t n = cut_characters(value, room);
        bool cut = i + 1 == lines && n < value.n;

        if (cut)
            n = cut_characters(value, room - 1);
        buf_addf(out, "  %-*s" STR_FMT "%s\n", TITLE_WIDTH - 2, i ? "" : title,
                 STR_ARG(((struct str){ value.p, n })), cut ? "…" : "");
        value = (struct str){ value.p + n, value.n - n };
    }
    return value.n == 0;
}

void held_call_describe(const struct json *call, const struct table_style *style, unsigned width,
                        struct buf *out)
{
    char shown[4 * SHOWN_MAX + 1];
    AUTO(buf_done) struct buf value = BUF_INIT(ARGS_MAX);
    char id[ID_SHOWN];
    bool whole = true;

    log_printable(show_string(call, "request_id"), id, sizeof id);
    buf_addf(out, "%s%s ", style->colour ? "\033[1m" : "", id);
    log_printable(show_string(call, "tool"), shown, ID_SHOWN);
    buf_addf(out, "%s%s\n", shown, style->colour ? "\033[0m" : "");
    for (size_t i = 0; i < COUNT_OF(held_lines); i++) {
        buf_clear(&value);
        held_lines[i].show(show_at(call, held_lines[i].path), style->now, &value);
        log_printable((struct str){ value.p, value.n < SHOWN_MAX ? value.n : SHOWN_MAX }, shown,
                      sizeof shown);
        if (!add_held_value(out, held_lines[i].title, str_from(shown), width,
                            held_lines[i].lines) ||
            value.n >= SHOWN_MAX)
            whole = false;
    }
    if (!whole)
        buf_addf(out, "  in full   sandboxer approvals show %s\n", id);
}

/* --- requests --- */

int held_call_fetch(struct api_call *c, const struct verb *v, const struct common *common,
                    enum contact_start start, const char *id)
{
    api_call_init(c, v, common, "GET");
    c->start = start;
    c->patience = DECISION_PATIENCE;
    api_call_path(c, "/v1/approvals/%s", id);
    return api_call_run(c);
}

int held_call_add_master(struct api_call *c)
{
    const char *master = getenv("SANDBOXER_MASTER");

    if (master && !h1_is_value(str_from(master)))
        return verb_failed(
            c->verb, "SANDBOXER_MASTER is not a valid token: it contains a control character");
    api_call_field(c, "Sandboxer-Master", master && master[0] ? master : NULL);
    return 0;
}

int held_call_prepare(struct api_call *c, const char *id, const struct held_decision *d)
{
    struct json_writer *w;

    api_call_path(c, "/v1/approvals/%s/", id);
    buf_add(&c->target, str_from(d->how));
    w = api_call_json(c);
    json_begin_object(w);
    json_field_bool(w, "self", true);
    json_field_text(w, "reason", d->reason);
    if (d->grant)
        json_field_text(w, "grant", d->grant);
    json_end_object(w);
    return held_call_add_master(c);
}

int held_call_decide(const struct verb *v, const struct common *common, const char *id,
                     const struct held_decision *d)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, common, "POST");
    c.patience = DECISION_PATIENCE;
    c.start = CONTACT_ONLY;
    status = held_call_prepare(&c, id, d);
    return status ? status : api_call_run(&c);
}

/* --- the question on a terminal --- */

static int confirm_on_terminal(struct api_call *c, int tty, const char *how)
{
    AUTO(buf_done) struct buf text = BUF_INIT(DESCRIPTION_MAX);
    struct table_style style = table_style_for(tty);
    struct str id = show_string(c->answer, "request_id");
    char question[80];

    held_call_describe(c->answer, &style, terminal_columns(tty), &text);
    if (write_all(tty, buf_str(&text), NULL) < 0)
        return verb_failed(c->verb, "writing to /dev/tty: %s", strerror(errno));
    snprintf(question, sizeof question, "%s this request of your own?", how);
    if (terminal_ask(tty, question))
        return 0;
    cli_report("%s: not decided: " STR_FMT " is still held", c->verb->name, STR_ARG(id));
    return EXIT_REPORTED;
}

int held_call_confirm(const struct verb *v, const struct common *common, const char *id,
                      const char *how)
{
    AUTO_CLOSE int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    AUTO(api_call_done) struct api_call c;
    int status;

    if (tty < 0) {
        api_call_init(&c, v, common, "GET"); /* for its release */
        return verb_misused(v,
                            "--self asks a person, and this process has no terminal "
                            "(/dev/tty: %s)",
                            strerror(errno));
    }
    status = held_call_fetch(&c, v, common, CONTACT_MAY_START, id);
    return status ? status : confirm_on_terminal(&c, tty, how);
}
