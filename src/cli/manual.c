/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/verb.h"

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

/* Text in which nothing is a request or an escape. A line of it must not begin with a dot. */
static void print_roff_text(FILE *to, struct str s)
{
    if (s.n && (s.p[0] == '.' || s.p[0] == '\''))
        fputs("\\&", to);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '\\')
            fputs("\\e", to);
        else if (s.p[i] == '-')
            fputs("\\-", to);
        else
            fputc(s.p[i], to);
}

static void print_roff(FILE *to, const char *text)
{
    print_roff_text(to, str_from(text));
}

/* Text that the tables broke into lines: one paragraph. */
static void print_flowing_text(FILE *to, const char *text)
{
    struct str rest = str_from(text), line;

    while (rest.p) {
        rest = str_cut(rest, '\n', &line);
        print_roff_text(to, str_trim(line));
        fputc('\n', to);
    }
}

/* Paragraphs, and examples where lines begin with blanks. */
static void print_roff_paragraphs(FILE *to, const char *text)
{
    struct str rest = str_from(text), line;
    bool example = false;

    fputs(".PP\n", to);
    while (rest.p) {
        bool indented;

        rest = str_cut(rest, '\n', &line);
        if (line.n == 0) {
            fputs(rest.n && !example ? ".PP\n" : "", to);
            continue;
        }
        indented = line.p[0] == ' ';
        if (indented != example)
            fputs(indented ? ".RS 4\n.nf\n" : ".fi\n.RE\n.PP\n", to);
        example = indented;
        print_roff_text(to, str_trim(line));
        fputc('\n', to);
    }
    if (example)
        fputs(".fi\n.RE\n", to);
}

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
    print_flowing_text(to, o->help);
}

static void print_roff_verb(FILE *to, const struct verb *v)
{
    const struct option_spec *o;

    fputs(".SS \"sandboxer ", to);
    print_roff(to, v->name);
    fputs("\"\n.B sandboxer ", to);
    print_roff(to, v->name);
    fputs("\n[OPTION…] ", to);
    print_roff(to, v->arguments);
    fputs("\n.PP\n", to);
    print_roff(to, v->summary);
    fputs(".\n", to);
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        print_roff_option(to, o);
    if (v->text)
        print_roff_paragraphs(to, v->text);
}

static void print_roff_term(FILE *to, const char *term, const char *meaning)
{
    fputs(".TP\n.B ", to);
    print_roff(to, term);
    fputc('\n', to);
    print_flowing_text(to, meaning);
}

void manual_print(FILE *to)
{
    fputs("'\\\" -*- coding: utf-8 -*-\n.TH SANDBOXER 1 \"\" \"sandboxer " SANDBOXER_VERSION
          "\" \"User Commands\"\n"
          ".SH NAME\nsandboxer \\- run programs where they can do no harm\n"
          ".SH SYNOPSIS\n.B sandboxer\n\\fIVERB\\fR [\\fIOPTION\\fR…] …\n"
          ".SH DESCRIPTION\n"
          "sandboxer makes sandboxes for agents and automations, runs programs in them, and takes\n"
          "them down again. \\fBrun\\fR and \\fBcanary\\fR do all of it by themselves. The other "
          "verbs\n"
          "ask a daemon, which is started if it is not running.\n"
          ".PP\nThe start of an id will do wherever one is asked for, if it is the only one.\n"
          ".SH VERBS\n",
          to);
    for (size_t i = 0; cli_verbs[i]; i++)
        print_roff_verb(to, cli_verbs[i]);
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
}
