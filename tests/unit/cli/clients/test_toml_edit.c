/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/toml_edit.h"

#include "base/own.h"
#include "harness/tap.h"

enum { MEMORY = 1 << 20 };

static const struct toml_table table = { "mcp", "box" };

#define PAIRS                                                                                      \
    {                                                                                              \
        { "command", STR("\"/s\"") }, { "args", STR("[\"mcp\"]") },                                \
    }
#define OURS "[mcp.box]\ncommand = \"/s\"\nargs = [\"mcp\"]\n"

static void check_set(const char *before, const char *after)
{
    const struct toml_pair pairs[] = PAIRS;
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY), again = BUF_INIT(MEMORY);
    struct err e;
    int r = toml_edit_set(str_from(before), table, pairs, COUNT_OF(pairs), &out, &e);

    CHECK_OK(r, e);
    CHECK_STR(buf_str(&out), after);
    CHECK_INT(r, strcmp(before, after) != 0);
    CHECK_INT(toml_edit_set(buf_str(&out), table, pairs, COUNT_OF(pairs), &again, &e), 0);
    CHECK_STR(buf_str(&again), after);
}

static void check_remove(const char *before, const char *after)
{
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY);
    struct err e;
    int r = toml_edit_remove(str_from(before), table, &out, &e);

    CHECK_OK(r, e);
    CHECK_STR(buf_str(&out), after);
    CHECK_INT(r, strcmp(before, after) != 0);
}

static void check_refused(const char *text, const char *message)
{
    const struct toml_pair pairs[] = PAIRS;
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY);
    struct err e;

    CHECK_INT(toml_edit_set(str_from(text), table, pairs, COUNT_OF(pairs), &out, &e),
              -(int)ERR_INVALID);
    CHECK_STR(str_from(e.msg), message);
    CHECK_INT(toml_edit_remove(str_from(text), table, &out, &e), -(int)ERR_INVALID);
    CHECK_INT(out.n, 0);
}

TEST(toml_edit_appends_a_table)
{
    check_set("", OURS);
    check_set("a = 1", "a = 1\n\n" OURS);
    check_set("a = 1\n", "a = 1\n\n" OURS);
    check_set("a = 1\r\n", "a = 1\r\n\r\n[mcp.box]\r\ncommand = \"/s\"\r\nargs = [\"mcp\"]\r\n");
    check_set("[mcp]\n[mcp.other] # x\ncommand = 'y'\n",
              "[mcp]\n[mcp.other] # x\ncommand = 'y'\n\n" OURS);
    check_set("[mcp]\nother.command = 'y'\n[[mcp.list]]\n",
              "[mcp]\nother.command = 'y'\n[[mcp.list]]\n\n" OURS);
    check_set("a = \"\"\"\n[mcp.box]\n\"\"\"\nb = '''\n[mcp.box]'''\n",
              "a = \"\"\"\n[mcp.box]\n\"\"\"\nb = '''\n[mcp.box]'''\n\n" OURS);
}

TEST(toml_edit_replaces_values_alone)
{
    check_set("[mcp.box]\ncommand=\"x\" # mine\nargs = [ # list\n 'a', # b\n]\ntimeout = 3\n[z]\n",
              "[mcp.box]\ncommand=\"/s\" # mine\nargs = [\"mcp\"]\ntimeout = 3\n[z]\n");
    check_set("[mcp.box]\nargs = []\n\n[mcp.box.env]\nA = 'b'\n",
              "[mcp.box]\ncommand = \"/s\"\nargs = [\"mcp\"]\n\n[mcp.box.env]\nA = 'b'\n");
    check_set("[ mcp . \"box\" ]\nargs = []\ncommand = ''\n",
              "[ mcp . \"box\" ]\nargs = [\"mcp\"]\ncommand = \"/s\"\n");
    check_set("[mcp.box]", OURS);
    check_set("[mcp.box]\r\n# x\r\n",
              "[mcp.box]\r\ncommand = \"/s\"\r\nargs = [\"mcp\"]\r\n# x\r\n");
}

TEST(toml_edit_removes_the_table_and_its_tables)
{
    check_remove("a = 1\n\n" OURS, "a = 1\n");
    check_remove(OURS, "");
    check_remove("a = 1\n" OURS "# of b\n[b]\n", "a = 1\n# of b\n[b]\n");
    check_remove(OURS "\n[mcp.box.env]\nA = 1\n\n[b]\n[mcp.box.tools.x]\nC = 1\n[c]\n",
                 "\n[b]\n[c]\n");
    check_remove("[mcp.boxes]\n[other.mcp.box]\n", "[mcp.boxes]\n[other.mcp.box]\n");
    check_remove("a = 1\r\n\r\n[mcp.box]\r\nx = 1\r\n", "a = 1\r\n");
}

TEST(toml_edit_reads_all_values)
{
    const char *text = "a = 1979-05-27 07:32:00Z\nb = [ { x = 1, \"y.z\" = [1,2,] }, {} ]\n"
                       "c = -1.5e+3\n\"k\\n\".'l' = true\nd = \"\\\"\"\ne = '\\'\n"
                       "f = \"\"\"\"quoted\"\"\"\"\n[[x.y]]\n";
    AUTO(buf_done) struct buf after = BUF_INIT(MEMORY);

    CHECK(buf_addf(&after, "%s\n" OURS, text) == 0);
    check_set(text, after.p);
}

TEST(toml_edit_refuses_other_texts)
{
    check_refused("a = 1\nb =\n", "line 2: expected a value");
    check_refused("a\n", "line 1: expected '=' behind the key");
    check_refused("= 1\n", "line 1: expected a key");
    check_refused("[a\n", "line 1: expected ']' behind the name of a table");
    check_refused("[[a]\n", "line 1: expected ']' behind the name of a table");
    check_refused("a = 1 b\n", "line 1: text follows the value");
    check_refused("\na = \"x\n", "line 2: a string has no end in its line, or a control character");
    check_refused("a = \"x\\\n\"\n",
                  "line 1: a string has no end in its line, or a control character");
    check_refused("a = '''x\n", "line 2: a string has no end");
    check_refused("a = [1 2]\n", "line 1: expected ',' or the end of a list");
    check_refused("a = { b }\n", "line 1: expected '=' behind the key");
    check_refused("a = '\xFF'\n", "line 1: the text is not UTF-8");
}

TEST(toml_edit_refuses_other_forms_of_the_table)
{
    check_refused(OURS OURS, "line 4: [mcp.box] is there twice; remove one");
    check_refused("[[mcp.box]]\n",
                  "line 1: [mcp.box] is written as a list of tables; change it by hand");
    check_refused("[[mcp]]\n",
                  "line 1: [mcp.box] is written as a list of tables; change it by hand");
    check_refused("mcp = {}\n",
                  "line 1: [mcp.box] cannot be added to an inline table; change it by hand");
    check_refused("mcp.box.command = 'x'\n",
                  "line 1: [mcp.box] is written in another form; write it as a table with this "
                  "name");
    check_refused("[mcp]\nbox = {}\n",
                  "line 2: [mcp.box] is written in another form; write it as a table with this "
                  "name");
}

TEST(toml_edit_finds_keys)
{
    struct err e;

    CHECK_INT(toml_edit_has(STR("[mcp.box]\nurl = 'x'\n"), table, "url", &e), 1);
    CHECK_INT(toml_edit_has(STR("url = 1\n[mcp.box]\nu = 'x'\n[b]\nurl=1\n"), table, "url", &e), 0);
}
