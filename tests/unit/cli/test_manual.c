/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/verb.h"
#include "harness/tap.h"

/* NULL: the overview. Not inlined: compilers mistake the stream's pointer for a dangling one. */
static __attribute__((noinline)) char *page_of(const struct verb *v)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    if (v)
        manual_print_verb(to, v);
    else
        manual_print(to);
    fclose(to);
    return text;
}

/* "extend-ttl" as it is in a page: "extend\-ttl". */
static void escape_name(const char *name, char blank, char *out)
{
    for (; *name; name++) {
        if (*name == '-' || (*name == ' ' && blank == '-'))
            *out++ = '\\';
        *out++ = *name == ' ' ? blank : *name;
    }
    *out = '\0';
}

TEST(overview_has_every_verb_and_status)
{
    AUTO_FREE char *text = page_of(NULL);

    for (size_t i = 0; cli_verbs[i]; i++) {
        char name[64], reference[96];

        escape_name(cli_verbs[i]->name, '-', name);
        snprintf(reference, sizeof reference, ".BR sandboxer\\-%s (1)\n", name);
        if (!strstr(text, reference))
            FAIL("%s is not in the overview", cli_verbs[i]->name);
    }
    for (size_t i = 0; i < status_meaning_count; i++)
        CHECK(strstr(text, status_meanings[i].status) != NULL);
}

TEST(page_has_every_section)
{
    static const char *const sections[] = { "NAME",        "SYNOPSIS", "DESCRIPTION", "OPTIONS",
                                            "EXIT STATUS", "EXAMPLES", "SEE ALSO" };

    for (size_t i = 0; cli_verbs[i]; i++) {
        AUTO_FREE char *text = page_of(cli_verbs[i]);
        const char *at = text;

        for (size_t k = 0; k < COUNT_OF(sections); k++) {
            char line[32];

            snprintf(line, sizeof line, "\n.SH %s\n", sections[k]);
            at = strstr(at, line);
            if (!at)
                FAIL("%s: there is no section %s, or it is out of order", cli_verbs[i]->name,
                     sections[k]);
        }
    }
}

/* The next option of a page: a line behind `.TP`, with its "--name" at the end of the bold text. */
static bool next_page_option(const char **at, char *out, size_t cap)
{
    const char *line = strstr(*at, "\n.TP\n"), *name = line ? strstr(line, "\\fB\\-\\-") : NULL;
    size_t n = 0;

    if (!name)
        return false;
    for (name += strlen("\\fB\\-\\-"); *name && strncmp(name, "\\fR", 3) != 0 && n < cap - 1;
         name++)
        if (*name != '\\')
            out[n++] = *name;
    out[n] = '\0';
    *at = name;
    return true;
}

TEST(page_has_the_options_of_the_help)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        AUTO_FREE char *text = page_of(cli_verbs[i]);
        const char *at = strstr(text, ".SH OPTIONS");
        const struct option_spec *o;
        char name[64];

        for (size_t k = 0; (o = verb_option(cli_verbs[i], k)); k++) {
            CHECK(next_page_option(&at, name, sizeof name));
            CHECK_STR(str_from(name), o->name);
        }
        CHECK(!next_page_option(&at, name, sizeof name));
    }
}

static void check_requests(const char *text)
{
    static const char *const known[] = { ".TH ", ".SH ", ".B ", ".BR ",  ".PP", ".br",
                                         ".TP",  ".nf",  ".fi", ".RS 4", ".RE" };
    struct str rest = str_from(text), line;

    while (rest.p) {
        bool good = false;

        rest = str_cut(rest, '\n', &line);
        if (!line.n || line.p[0] != '.')
            continue;
        for (size_t i = 0; i < COUNT_OF(known); i++)
            good |= str_starts(line, str_from(known[i]));
        if (!good)
            FAIL("'" STR_FMT "'", STR_ARG(line));
    }
}

/* A line that begins with a dot is one of the requests we use. */
TEST(pages_have_no_accidental_requests)
{
    AUTO_FREE char *text = page_of(NULL);

    check_requests(text);
    for (size_t i = 0; cli_verbs[i]; i++) {
        AUTO_FREE char *page = page_of(cli_verbs[i]);

        check_requests(page);
    }
}

/* A file that is removed with the process. */
static void write_page(const char *text, char path[32])
{
    AUTO_CLOSE int file = -1;
    struct err e;

    snprintf(path, 32, "/tmp/sandboxer-test-XXXXXX");
    file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_OK(write_all(file, str_from(text), &e), e);
}

static void check_page(const char *tool, const char *text)
{
    char path[32], line[128], said[512] = "";
    FILE *from;

    write_page(text, path);
    snprintf(line, sizeof line, "%s %s 2>&1", tool, path);
    from = popen(line, "re");
    CHECK(from != NULL);
    if (fread(said, 1, sizeof said - 1, from) > 0)
        said[sizeof said - 1] = '\0';
    pclose(from);
    unlink(path);
    CHECK_STR(str_from(said), "");
}

static void check_pages(const char *tool)
{
    AUTO_FREE char *text = page_of(NULL);

    check_page(tool, text);
    for (size_t i = 0; cli_verbs[i]; i++) {
        AUTO_FREE char *page = page_of(cli_verbs[i]);

        check_page(tool, page);
    }
}

TEST(groff_renders_pages_without_a_warning)
{
    if (system("command -v groff >/dev/null") != 0)
        SKIP("there is no groff");
    check_pages("groff -k -man -Tutf8 -ww -z");
}

TEST(mandoc_has_no_warning_about_pages)
{
    if (system("command -v mandoc >/dev/null") != 0)
        SKIP("there is no mandoc");
    check_pages("lint() { mandoc -T lint -W warning \"$1\" | grep -v 'missing date'; }; lint");
}
