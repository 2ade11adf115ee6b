/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/verb.h"
#include "harness/tap.h"

static char *manual(void)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    manual_print(to);
    fclose(to);
    return text;
}

TEST(manual_has_every_verb_and_status)
{
    AUTO_FREE char *text = manual();

    for (size_t i = 0; cli_verbs[i]; i++) {
        struct str word;

        str_cut(str_from(cli_verbs[i]->name), '-', &word);
        CHECK(memmem(text, strlen(text), word.p, word.n) != NULL);
    }
    for (size_t i = 0; i < status_meaning_count; i++)
        CHECK(strstr(text, status_meanings[i].status) != NULL);
}

/* A line that begins with a dot is one of the requests we use. */
TEST(manual_has_no_accidental_requests)
{
    static const char *const known[] = { ".TH ", ".SH ", ".SS ", ".B ",   ".PP",
                                         ".TP",  ".nf",  ".fi",  ".RS 4", ".RE" };
    AUTO_FREE char *text = manual();
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

TEST(manual_is_understood)
{
    AUTO_FREE char *text = manual();
    char said[512] = "", command[] = "groff -k -man -Tutf8 -ww -z 2>&1";
    char path[] = "/tmp/sandboxer-test-XXXXXX", line[128];
    int file;
    FILE *from;

    if (system("command -v groff >/dev/null") != 0)
        SKIP("there is no groff");
    file = mkstemp(path);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(line, sizeof line, "%s %s", command, path);
    from = popen(line, "re");
    CHECK(from != NULL);
    if (fread(said, 1, sizeof said - 1, from) > 0)
        said[sizeof said - 1] = '\0';
    pclose(from);
    close(file);
    unlink(path);
    CHECK_STR(str_from(said), "");
}
