/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include <ctype.h>
#include <string.h>

#include "base/own.h"
#include "base/str.h"

static const struct {
    const char *name, *meaning;
} environment[] = {
    { "SANDBOXER_URL", "Address of the daemon, as with --server." },
    { "SANDBOXER_TOKEN", "Token for a daemon at an http:// address." },
    { "SANDBOXER_MASTER", "Master token, used to approve or reject held calls." },
    { "SANDBOXER_PEER", "Peer session token: act as that MCP or REST client." },
    { "SANDBOXER_SOCKET", "The unix socket of the daemon, an absolute path." },
    { "SANDBOXER_NO_DAEMON", "If set, no daemon is started where none is running." },
    { "SANDBOXER_STATE", "The directory for state." },
    { "XDG_RUNTIME_DIR", "Directory of the socket of a user's daemon." },
    { "NO_COLOR", "If set, nothing is coloured." },
}, files[] = {
    { "/run/sandboxer/sandboxer.sock", "The socket of root's daemon." },
    { "$XDG_RUNTIME_DIR/sandboxer.sock",
      "The socket of a user's daemon; without that directory, in /run/user/UID or in the state "
      "directory." },
    { "/var/lib/sandboxer, ~/.local/share/sandboxer",
      "State directories of root and of a user. sandboxerd.log there is the log of a daemon "
      "that was started on demand." },
};

/* --- text as roff --- */

/* Text without requests and escapes, with the characters that a shell means. A line of it must not
 * begin with a dot. */
static void print_roff_text(FILE *to, struct str s)
{
    static const char *const escapes[128] = { ['\\'] = "\\e",  ['-'] = "\\-",   ['\''] = "\\(aq",
                                              ['`'] = "\\(ga", ['^'] = "\\(ha", ['~'] = "\\(ti" };

    if (s.n && s.p[0] == '.')
        fputs("\\&", to);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c < COUNT_OF(escapes) && escapes[c])
            fputs(escapes[c], to);
        else
            fputc(c, to);
    }
}

static void print_roff(FILE *to, const char *text)
{
    print_roff_text(to, str_from(text));
}

/* Lines of text: flowing, or as they are after a `.nf`. */
static void print_roff_lines(FILE *to, struct str text)
{
    struct str line;

    while (text.p && text.n) {
        text = str_cut(text, '\n', &line);
        print_roff_text(to, str_trim(line));
        fputc('\n', to);
    }
}

/* "sandboxer-egress-check" */
static void print_page_name(FILE *to, const struct verb *v)
{
    fputs("sandboxer\\-", to);
    for (const char *p = v->name; *p; p++)
        fputs(*p == ' ' || *p == '-' ? "\\-" : (char[]){ *p, 0 }, to);
}

static void print_page_header(FILE *to, const char *verb)
{
    fputs("'\\\" -*- coding: utf-8 -*-\n.TH SANDBOXER", to);
    if (verb)
        fputc('-', to);
    for (const char *p = verb ? verb : ""; *p; p++)
        fputc(*p == ' ' ? '-' : toupper((unsigned char)*p), to);
    fputs(" 1 \"\" \"sandboxer " SANDBOXER_VERSION "\" \"User Commands\"\n", to);
}

/* --- the parts of a verb's text --- */

/* Paragraphs are separated by empty lines. */
enum paragraph {
    PARAGRAPH_PROSE = 1 << 0,
    PARAGRAPH_COMMANDS = 1 << 1, /* between prose */
    PARAGRAPH_EXAMPLES = 1 << 2, /* commands behind all prose */
    PARAGRAPH_STATUS = 1 << 3,
};

#define STATUS_PREFIX STR("Exit status: ")

static struct str next_paragraph(struct str *rest)
{
    const char *end = memmem(rest->p, rest->n, "\n\n", 2);
    struct str ret = { rest->p, end ? (size_t)(end - rest->p) : rest->n };

    *rest = end ? (struct str){ end + 2, rest->n - ret.n - 2 } : (struct str){ NULL, 0 };
    return ret;
}

static bool has_prose(struct str text)
{
    while (text.n)
        if (next_paragraph(&text).p[0] != ' ')
            return true;
    return false;
}

static enum paragraph kind_of_paragraph(struct str p, struct str rest)
{
    if (str_starts(p, STATUS_PREFIX))
        return PARAGRAPH_STATUS;
    if (p.p[0] != ' ')
        return PARAGRAPH_PROSE;
    return has_prose(rest) ? PARAGRAPH_COMMANDS : PARAGRAPH_EXAMPLES;
}

/* Prints the paragraphs of these kinds; false: there are none. */
static bool print_paragraphs(FILE *to, const struct verb *v, const char *heading, unsigned kinds)
{
    struct str rest = str_from(v->text);
    bool any = false;

    while (rest.n) {
        struct str p = next_paragraph(&rest);
        enum paragraph kind = kind_of_paragraph(p, rest);

        if (!(kind & kinds))
            continue;
        if (!any && heading)
            fprintf(to, ".SH %s\n", heading);
        else if (kind & (PARAGRAPH_PROSE | PARAGRAPH_STATUS))
            fputs(".PP\n", to);
        any = true;
        if (kind & (PARAGRAPH_COMMANDS | PARAGRAPH_EXAMPLES)) {
            fputs(".RS 4\n.nf\n", to);
            print_roff_lines(to, p);
            fputs(".fi\n.RE\n", to);
            continue;
        }
        if (kind == PARAGRAPH_STATUS)
            p = (struct str){ p.p + STATUS_PREFIX.n, p.n - STATUS_PREFIX.n };
        print_roff_lines(to, p);
    }
    return any;
}

/* --- the page of a verb --- */

static void print_roff_option(FILE *to, const struct option_spec *o)
{
    fputs(".TP\n", to);
    if (o->letter)
        fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", to);
    print_roff(to, o->name);
    fputs("\\fR", to);
    if (o->value) {
        fputs(" \\fI", to);
        print_roff(to, o->value);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    print_roff_lines(to, str_from(o->help));
}

static void print_verb_status(FILE *to, const struct verb *v)
{
    bool own = print_paragraphs(to, v, "EXIT STATUS", PARAGRAPH_STATUS);

    fputs(own ? ".PP\nSee also\n" : ".SH EXIT STATUS\n", to);
    if (!own)
        fputs(v->flags & VERB_COMMAND ? "That of the program; failures of sandboxer are 125. See\n"
                                      : "0 on success; other statuses are listed in\n",
              to);
    fputs(".BR sandboxer (1).\n", to);
}

/* Whether the text refers to another verb: 'pause', `sandboxer pause` or 'pause --option'. */
static bool mentions_verb(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (; (text = strpbrk(text, "'`")); text++) {
        const char *at = text + 1;

        if (strncmp(at, "sandboxer ", 10) == 0)
            at += 10;
        if (strncmp(at, name, n) == 0 && strchr(" '`", at[n]))
            return true;
    }
    return false;
}

static bool is_related_verb(const struct verb *v, const struct verb *other)
{
    struct str a, b;

    if (v == other)
        return false;
    return mentions_verb(v->text, other->name) ||
           (str_cut(str_from(v->name), ' ', &a).p && str_cut(str_from(other->name), ' ', &b).p &&
            str_eq(a, b));
}

static void print_related(FILE *to, const struct verb *v)
{
    fputs(".SH SEE ALSO\n.BR sandboxer (1)", to);
    for (size_t i = 0; cli_verbs[i]; i++) {
        if (!is_related_verb(v, cli_verbs[i]))
            continue;
        fputs(",\n.BR ", to);
        print_page_name(to, cli_verbs[i]);
        fputs(" (1)", to);
    }
    fputs(v->flags & VERB_REMOTE ? ",\n.BR sandboxerd (8)\n" : "\n", to);
}

static void print_aliases(FILE *to, const struct verb *v, const char *before, const char *after)
{
    for (size_t i = 1; verb_spelling(v, i).p; i++) {
        fprintf(to, "%s\\fB", i == 1 ? before : ", ");
        print_roff_text(to, verb_spelling(v, i));
        fputs("\\fR", to);
    }
    fputs(v->aliases ? after : "", to);
}

void manual_print_verb(FILE *to, const struct verb *v)
{
    const struct option_spec *o;

    print_page_header(to, v->name);
    fputs(".SH NAME\n", to);
    print_page_name(to, v);
    fputs(" \\- ", to);
    print_roff(to, v->summary);
    fputs("\n.SH SYNOPSIS\n.B sandboxer ", to);
    print_roff(to, v->name);
    fputs("\n[\\fIOPTION\\fR…]", to);
    if (v->arguments) {
        fputc(' ', to);
        print_roff(to, v->arguments);
    }
    fprintf(to, "\n.SH DESCRIPTION\n%c", toupper((unsigned char)v->summary[0]));
    print_roff(to, v->summary + 1);
    fputs(".\n", to);
    print_aliases(to, v, "Also spelled ", ".\n");
    print_paragraphs(to, v, NULL, PARAGRAPH_PROSE | PARAGRAPH_COMMANDS);
    fputs(".SH OPTIONS\n", to);
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        print_roff_option(to, o);
    print_verb_status(to, v);
    print_paragraphs(to, v, "EXAMPLES", PARAGRAPH_EXAMPLES);
    print_related(to, v);
}

/* --- the overview --- */

static void print_roff_term(FILE *to, const char *term, const char *meaning)
{
    fputs(".TP\n.B ", to);
    print_roff(to, term);
    fputc('\n', to);
    print_roff_lines(to, str_from(meaning));
}

void manual_print(FILE *to)
{
    print_page_header(to, NULL);
    fputs(".SH NAME\nsandboxer \\- run programs where they can do no harm\n"
          ".SH SYNOPSIS\n.B sandboxer\n\\fIVERB\\fR [\\fIOPTION\\fR…] …\n.br\n"
          ".B sandboxer help\n[\\fIVERB\\fR]\n.br\n.B sandboxer \\-\\-version\n"
          ".SH DESCRIPTION\n"
          "sandboxer makes sandboxes for agents and automations, runs programs in them, and takes\n"
          "them down again. \\fBrun\\fR and \\fBcanary\\fR do all of it by themselves. The other "
          "verbs\n"
          "ask a daemon,\n.BR sandboxerd (8),\nwhich is started if it is not running.\n"
          ".PP\nThe start of an id will do wherever one is asked for, if it is the only one.\n"
          ".SH COMMANDS\nEach verb has a manual page of its own.\n",
          to);
    for (size_t i = 0; cli_verbs[i]; i++) {
        fputs(".TP\n.BR ", to);
        print_page_name(to, cli_verbs[i]);
        fputs(" (1)\n", to);
        print_roff(to, cli_verbs[i]->summary);
        print_aliases(to, cli_verbs[i], " (also: ", ")");
        fputc('\n', to);
    }
    fputs(".SH EXIT STATUS\n"
          "With \\fBrun\\fR, \\fBexec\\fR, \\fBshell\\fR and \\fBattach\\fR, statuses below 124 "
          "are the\n"
          "program's own, and every failure of ours is 125.\n",
          to);
    for (size_t i = 0; i < status_meaning_count; i++)
        print_roff_term(to, status_meanings[i].status, status_meanings[i].meaning);
    fputs(".SH ENVIRONMENT\n", to);
    for (size_t i = 0; i < COUNT_OF(environment); i++)
        print_roff_term(to, environment[i].name, environment[i].meaning);
    fputs(".SH FILES\n", to);
    for (size_t i = 0; i < COUNT_OF(files); i++)
        print_roff_term(to, files[i].name, files[i].meaning);
    fputs(".SH SEE ALSO\n.BR sandboxerd (8),\n.BR sandboxer\\-egress (8)\n", to);
}
