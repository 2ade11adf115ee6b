/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

enum { MEMORY = 4 << 20 };

static const struct table_style plain = { .now = 0 };
static const struct table_style narrow = { .terminal = true, .now = 0 };
static const struct table_style coloured = { .terminal = true, .colour = true };

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("TEXT", "a.text", .most = 5),
    COLUMN("MORE", "more", .alone = true, .block = true),
};

static struct arena arena = ARENA_INIT(MEMORY);

static const struct json *parse(const char *text)
{
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ MEMORY, 64, false }, &arena, &v, &e),
             e);
    return v;
}

typedef int print_fn(FILE *to, const struct table_style *style, const struct json *v,
                     const struct column *columns, size_t n, struct err *e);

static void check_print(print_fn *print, const struct table_style *style, const char *json,
                        const char *want)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    struct err e;

    CHECK_OK(print(to, style, parse(json), columns, COUNT_OF(columns), &e), e);
    fclose(to);
    CHECK_STR(str_from(text), want);
}

TEST(table_aligns_columns)
{
    check_print(table_print, &plain,
                "[{\"id\":\"sbx_1\",\"state\":\"ready\",\"a\":{\"text\":\"hello there\"}},"
                "{\"id\":\"é\",\"state\":null}]",
                "ID     STATE  TEXT\n"
                "sbx_1  ready  hello there\n"
                "é      -      -\n");
    check_print(table_print, &plain, "[]", "ID  STATE  TEXT\n");
}

TEST(table_cuts_on_a_terminal_only)
{
    check_print(table_print, &narrow, "[{\"id\":1,\"a\":{\"text\":\"äöüßhello\"}}]",
                "ID  STATE  TEXT\n1   -      äöüß…\n");
    check_print(table_print, &narrow, "[{\"id\":1,\"a\":{\"text\":\"äöüßé\"}}]",
                "ID  STATE  TEXT\n1   -      äöüßé\n");
}

static void check_width(unsigned short width, const char *want)
{
    static const struct column wide[] = {
        COLUMN("ID", "id"),
        COLUMN("NAME", "name", .most = 20),
        COLUMN("PLACE", "place", .most = 20),
        COLUMN("END", "end"),
    };
    const struct table_style style = { .terminal = true, .width = width };
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    struct err e;

    CHECK_OK(table_print(to, &style,
                         parse("[{\"id\":\"sbx_123\",\"name\":\"a-name-of-fifteen\",\"place\":"
                               "\"ten-places\",\"end\":\"the-end\"}]"),
                         wide, COUNT_OF(wide), &e),
             e);
    fclose(to);
    CHECK_STR(str_from(text), want);
}

TEST(table_fits_the_terminal)
{
    check_width(80, "ID       NAME               PLACE       END\n"
                    "sbx_123  a-name-of-fifteen  ten-places  the-end\n");
    check_width(47, "ID       NAME               PLACE       END\n"
                    "sbx_123  a-name-of-fifteen  ten-places  the-end\n");
    check_width(42, "ID       NAME          PLACE       END\n"
                    "sbx_123  a-name-of-f…  ten-places  the-end\n");
    check_width(36, "ID       NAME      PLACE     END\n"
                    "sbx_123  a-name-…  ten-pla…  the-end\n");
    check_width(32, "ID       NAME      PLACE     END\nsbx_123  a-name-…  ten-pla…  th…\n");
    check_width(12, "ID       NA…\nsbx_123  a-…\n");
    check_width(3, "ID \nsb…\n");
    check_width(1, "…\n…\n");
}

TEST(table_colours_states)
{
    check_print(table_print, &coloured,
                "[{\"id\":1,\"state\":\"ready\"},{\"id\":2,\"state\":\"odd\"}]",
                "ID  STATE  TEXT\n1   \033[32mready\033[0m  -\n2   odd    -\n");
}

TEST(table_passes_no_escapes_on)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    struct err e;

    CHECK_OK(table_print(to, &narrow,
                         parse("[{\"id\":\"\\u001b[2J\\r\\n\\u009b\",\"state\":\"\\u0007\"}]"),
                         columns, COUNT_OF(columns), &e),
             e);
    fclose(to);
    CHECK(!strchr(text, '\033') && !strchr(text, '\r') && !strchr(text, '\a'));
    CHECK(!strstr(text, "\xc2\x9b"));
    CHECK(strchr(strchr(text, '\n') + 1, '\n')[1] == '\0'); /* still two lines */
}

TEST(record_leaves_out_what_is_not_there)
{
    check_print(record_print, &plain, "{\"id\":\"x\",\"a\":{\"text\":\"t\"}}",
                "ID:     x\nTEXT:   t\n");
    check_print(record_print, &plain, "{\"id\":\"x\",\"more\":{\"a\":{\"b\":1},\"c\":[]}}",
                "ID:     x\nMORE:\n  a:\n    b: 1\n  c: []\n");
}

TEST(row_stands_alone)
{
    check_print(table_row, &plain, "{\"id\":\"x\",\"state\":\"ready\"}", "x  ready  -\n");
}

static const struct column stream_columns[] = {
    COLUMN("ID", "id", .width = 5),
    COLUMN("MORE", "more", .width = 4, .wide = 40),
    COLUMN("TEXT", "a.text", .width = 6),
};

static void check_stream(const struct table_style *style, const char *json, const char *want)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    struct err e;

    table_titles(to, style, stream_columns, COUNT_OF(stream_columns));
    CHECK_OK(table_row(to, style, parse(json), stream_columns, COUNT_OF(stream_columns), &e), e);
    fclose(to);
    CHECK_STR(str_from(text), want);
}

TEST(a_stream_has_columns_of_fixed_width)
{
    static const char row[] = "{\"id\":\"x\",\"more\":12,\"a\":{\"text\":\"hello there\"}}";
    static const struct table_style small = { .terminal = true, .width = 14 },
                                    large = { .terminal = true, .width = 40 };

    check_stream(&plain, row, "ID     MORE  TEXT\nx      12    hello there\n");
    check_stream(&small, row, "ID     TEXT\nx      hello …\n");
    check_stream(&large, row, "ID     MORE  TEXT\nx      12    hello there\n");
    check_stream(&small, "{\"id\":\"sbx_12345\"}", "ID     TEXT\nsbx_…  -\n");
}

static void check_tree(enum format format, bool stream, const char *json, const char *want)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    struct err e;

    CHECK_OK(tree_print(to, format, stream, parse(json), &e), e);
    fclose(to);
    CHECK_STR(str_from(text), want);
}

TEST(tree_is_printed_for_programs)
{
    check_tree(FORMAT_JSON, false, "{\"a\":1}", "{\n  \"a\": 1\n}\n");
    check_tree(FORMAT_JSON, true, "{\"a\":1}", "{\"a\":1}\n");
    check_tree(FORMAT_YAML, false, "{\"a\":1}", "a: 1\n");
    check_tree(FORMAT_YAML, true, "{\"a\":1}", "---\na: 1\n");
}

TEST(json_has_no_controls_in_it)
{
    check_tree(FORMAT_JSON, true, "[\"\\u009b\\u007f\\u001b\"]", "[\"\\u009b\\u007f\\u001b\"]\n");
}
