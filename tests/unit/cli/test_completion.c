/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/verb.h"
#include "harness/tap.h"

static char *script(const char *shell)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);

    CHECK(completion_print(to, shell));
    fclose(to);
    return text;
}

/* Every verb and every option is in there. */
static void check_mentions(const char *shell)
{
    AUTO_FREE char *text = script(shell);
    const struct option_spec *o;
    struct str word;

    for (size_t i = 0; cli_verbs[i]; i++) {
        for (size_t k = 0; verb_spelling(cli_verbs[i], k).p; k++) {
            str_cut(verb_spelling(cli_verbs[i], k), ' ', &word);
            CHECK(memmem(text, strlen(text), word.p, word.n) != NULL);
        }
        for (size_t j = 0; (o = verb_option(cli_verbs[i], j)); j++)
            if (!strstr(text, o->name))
                FAIL("%s does not know --%s", shell, o->name);
    }
}

/* The shell's own check of what it reads on stdin; true if there is no such shell. */
static bool accepts(const char *shell, const char *text)
{
    char command[64];
    FILE *to;

    snprintf(command, sizeof command, "command -v %s >/dev/null", shell);
    if (system(command) != 0)
        return true;
    snprintf(command, sizeof command, "%s -n /dev/stdin", shell);
    to = popen(command, "we");
    CHECK(to != NULL);
    fputs(text, to);
    return pclose(to) == 0;
}

TEST(completion_for_each_shell)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };

    for (size_t i = 0; i < COUNT_OF(shells); i++) {
        AUTO_FREE char *text = script(shells[i]);

        check_mentions(shells[i]);
        if (!accepts(shells[i], text))
            FAIL("%s does not take the script", shells[i]);
    }
    CHECK(!completion_print(stdout, "csh"));
}

/* What bash offers for these words; $sandboxer is a function that prints ids. */
static void check_bash(const char *words, int at, const char *want)
{
    AUTO_FREE char *text = script("bash");
    AUTO_FREE char *program = NULL;
    char got[4096] = "";
    FILE *from;

    CHECK(asprintf(&program,
                   "cat <<'END' | bash\n%s\nsandboxer() { echo sbx_1; echo 'sbx_2$(exit 7)'; }\n"
                   "COMP_WORDS=(%s); COMP_CWORD=%d; _sandboxer; echo ${COMPREPLY[@]}\nEND\n",
                   text, words, at) > 0);
    from = popen(program, "re");
    CHECK(from != NULL);
    CHECK(fread(got, 1, sizeof got - 1, from) > 0);
    CHECK(pclose(from) == 0);
    CHECK_STR(str_trim(str_from(got)), want);
}

TEST(bash_completes)
{
    if (system("command -v bash >/dev/null") != 0)
        SKIP("there is no bash");
    check_bash("sandboxer ext", 1, "extend-ttl");
    check_bash("sandboxer profiles ''", 2, "list get validate reload");
    check_bash("sandboxer ls --sta", 2, "--state"); /* an alias has the options of its verb … */
    check_bash("sandboxer rm ''", 2, "sbx_1");      /* … and its arguments */
    check_bash("sandboxer image r", 2, "remove rm");
    check_bash("sandboxer l", 1, "logs list ls label");
    check_bash("sandboxer create --sco", 2, "--scope");
    check_bash("sandboxer create --scope ''", 3, "session agent shared");
    check_bash("sandboxer create -o j", 3, "json");
    check_bash("sandboxer get ''", 2, "sbx_1"); /* and nothing that bash would expand */
    check_bash("sandboxer create --profile ''", 3, "sbx_1");
    check_bash("sandboxer completion f", 2, "fish");
    check_bash("sandboxer help ext", 2, "extend-ttl");
}
