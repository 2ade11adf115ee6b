/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/learn/report.h"

#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/show.h"
#include "cli/text_diff.h"

enum { SHOWN_MAX = 8, LIST_TEXT_MAX = 4096 };

int learn_report_policy(const struct api_call *c, const char *base)
{
    struct str policy = show_string(c->answer, "policy");
    enum format format = common_format(c->common);
    char to[] = "proposal";
    struct err e;
    int r = 0;

    if (format != FORMAT_TEXT)
        r = tree_print(stdout, format, false, c->answer, &e);
    else if (!base)
        fwrite(policy.p, 1, policy.n, stdout);
    else if (show_true(c->answer, "changed"))
        r = text_diff(base, show_string(c->answer, "base"), to, policy, &e);
    return r < 0 ? api_call_failed(c, &e) : answer_flush(c);
}

static int add_destination_text(struct buf *out, const struct json *d)
{
    struct str host = show_string(d, "host");
    unsigned long long port = show_count(d, "port");
    bool v6 = str_find(host, ':') < host.n;

    if (!port)
        return buf_add(out, host);
    return buf_addf(out, "%s" STR_FMT "%s:%llu", v6 ? "[" : "", STR_ARG(host), v6 ? "]" : "", port);
}

static int add_remark(struct buf *out, const struct json *d, const char *member)
{
    struct str text = member ? show_string(d, member) : (struct str){ 0 };
    struct str protocol = show_string(d, "protocol");

    if (!text.n)
        return 0;
    return buf_addf(out, " (" STR_FMT "%s" STR_FMT ")", STR_ARG(text), protocol.n ? ", " : "",
                    STR_ARG(protocol));
}

static const struct {
    const char *member, *title, *remark;
} lists[] = {
    { "refused", "refused", "code" },
    { "left_out", "left out of the policy", "reason" },
    { "only_looked_up", "looked up and never connected to, so left out", NULL },
};

static void report_list(const struct api_call *c, size_t which)
{
    AUTO(buf_done) struct buf text = BUF_INIT(LIST_TEXT_MAX);
    const struct json *list = show_at(c->answer, lists[which].member);
    size_t n = 0;
    int r = 0;

    if (!list || !list->list.n)
        return;
    for (const struct json *d = json_first(list); d != json_end(list) && n < SHOWN_MAX; d++, n++) {
        r = n ? buf_add(&text, STR(", ")) : 0;
        if (r >= 0)
            r = add_destination_text(&text, d);
        if (r >= 0)
            r = add_remark(&text, d, lists[which].remark);
        if (r < 0)
            break;
    }
    if (n < list->list.n)
        cli_report("%s: " STR_FMT " and %zu more (-o json lists them)", lists[which].title,
                   STR_ARG(buf_str(&text)), list->list.n - n);
    else
        cli_report("%s: " STR_FMT, lists[which].title, STR_ARG(buf_str(&text)));
}

static void report_suspicious(const struct api_call *c)
{
    const struct json *list = show_at(c->answer, "left_out");
    size_t n = 0;

    if (!list)
        return;
    for (const struct json *d = json_first(list); d != json_end(list); d++)
        n += show_true(d, "suspicious");
    if (n)
        cli_report("a program can send data out in the names that it looks up: %zu %s; "
                   "--include-suspicious proposes such names",
                   n, n == 1 ? "name looks like that" : "names look like that");
}

static size_t count_list(const struct api_call *c, const char *member)
{
    const struct json *list = show_at(c->answer, member);

    return list ? list->list.n : 0;
}

static void report_base(const struct api_call *c)
{
    unsigned long long dropped = show_count(c->answer, "dropped_endpoints");

    if (dropped)
        cli_report("%llu endpoint%s not used, and not in the proposal (--keep-unused keeps them)",
                   dropped, dropped == 1 ? " was" : "s were");
    if (show_true(c->answer, "dropped_unlisted"))
        cli_report("'unlisted' is not in the proposal: destinations are listed in its place");
}

static void report_incomplete(const struct api_call *c)
{
    unsigned long long missed = show_count(c->answer, "missed"),
                       unreadable = show_count(c->answer, "unreadable_lines");

    if (missed)
        cli_report("the proposal is incomplete: %llu connections went to further destinations than "
                   "can be compared, which is unusual for an honest program",
                   missed);
    if (unreadable)
        cli_report("%llu events of the log have a destination that no policy can name", unreadable);
}

void learn_report_lists(const struct api_call *c)
{
    unsigned long long connections = show_count(c->answer, "connections");

    if (c->common->quiet || common_format(c->common) != FORMAT_TEXT)
        return;
    cli_report("%llu connection%s: %zu destination%s added, %zu kept", connections,
               connections == 1 ? "" : "s", count_list(c, "added"),
               count_list(c, "added") == 1 ? "" : "s", count_list(c, "kept"));
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        report_list(c, i);
    report_suspicious(c);
    report_base(c);
    report_incomplete(c);
}
