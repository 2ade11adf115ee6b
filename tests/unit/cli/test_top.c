/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(4 << 20);
static struct top top;

static const struct json *parse_rows(const char *text)
{
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ 1 << 20, 16, false }, &arena, &v, &e),
             e);
    return v;
}

static void set_pane(enum top_pane pane, const char *rows)
{
    top_set_rows(&top, pane, parse_rows(rows));
}

static void check_selected(const char *want)
{
    CHECK_STR(str_from(top.panes[top.pane].selected), want);
}

#define BOX(id, cpu, memory, age)                                                                  \
    "{\"sandbox_id\":\"" id "\",\"created_at\":\"2026-01-0" age                                    \
    "T00:00:00Z\",\"usage\":{\"cpu\":" cpu ",\"memory_bytes\":" memory "}}"

/* The first bytes of the n-th line, as it is drawn. */
static void check_drawn_line(uint16_t columns, size_t line, const char *want)
{
    AUTO(frame_done) struct frame f;
    struct str text;

    frame_init(&f, 24, columns);
    top_draw(&top, 0, &f);
    CHECK_INT(f.n, 24);
    text = (struct str){ f.text.p + f.lines[line].at, f.lines[line].n };
    if (!str_starts(text, str_from(want)))
        FAIL("line %zu is '" STR_FMT "', not '%s'", line, STR_ARG(text), want);
}

TEST(sandboxes_are_sorted)
{
    static const struct {
        enum top_sort sort;
        const char *first;
    } orders[] = {
        { TOP_BY_CPU, "sbx_c" },
        { TOP_BY_MEMORY, "sbx_b" },
        { TOP_BY_NAME, "sbx_a" },
        { TOP_BY_AGE, "sbx_b" },
    };

    top_init(&top);
    set_pane(TOP_SANDBOXES,
             "[" BOX("sbx_a", "0", "2", "3") "," BOX("sbx_b", "0.5", "9", "1") "," BOX(
                 "sbx_c", "1.5", "1", "2") ",{\"sandbox_id\":\"sbx_d\"}]");
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        if (orders[i].sort == TOP_BY_AGE)
            continue; /* a row without an age comes first */
        top_set_sort(&top, orders[i].sort);
        check_drawn_line(80, 2, orders[i].first);
    }
    check_drawn_line(80, 0, "4 sandboxes by name");
    top_done(&top);
}

TEST(a_selection_stays_with_its_sandbox)
{
    top_init(&top);
    set_pane(TOP_SANDBOXES, "[" BOX("sbx_a", "3", "2", "3") "," BOX("sbx_b", "2", "9", "1") "]");
    check_selected("sbx_a");
    top_select(&top, 1);
    check_selected("sbx_b");
    top_select(&top, 1);
    check_selected("sbx_b");
    set_pane(TOP_SANDBOXES, "[" BOX("sbx_a", "3", "2", "3") "," BOX("sbx_b", "4", "9", "1") "]");
    check_selected("sbx_b");
    set_pane(TOP_SANDBOXES, "[" BOX("sbx_a", "3", "2", "3") "]");
    check_selected("sbx_a");
    set_pane(TOP_SANDBOXES, "[]");
    CHECK(!top_selected(&top));
    top_done(&top);
}

TEST(no_key_meets_another_approval)
{
    top_init(&top);
    set_pane(TOP_APPROVALS, "[{\"request_id\":\"req_1\"}]");
    CHECK_INT(top.pane, TOP_SANDBOXES);
    top_switch_pane(&top);
    check_selected("req_1");
    set_pane(TOP_APPROVALS, "[{\"request_id\":\"req_2\"},{\"request_id\":\"req_1\"}]");
    check_selected("req_1");
    set_pane(TOP_APPROVALS, "[{\"request_id\":\"req_2\"}]");
    CHECK_INT(top.pane, TOP_SANDBOXES);
    CHECK_STR(str_from(top.panes[TOP_APPROVALS].selected), "");
    set_pane(TOP_APPROVALS, "[]");
    top_switch_pane(&top);
    CHECK_INT(top.pane, TOP_SANDBOXES);
    top_done(&top);
}

TEST(denials_are_a_ring_of_printable_text)
{
    char text[256];

    top_init(&top);
    CHECK(!top_add_denial(&top, STR("{\"type\":\"sandbox.ready\"}")));
    CHECK(!top_add_denial(&top, STR("{")));
    for (int i = 0; i < TOP_DENIALS_MAX + 5; i++) {
        snprintf(text, sizeof text,
                 "{\"type\":\"egress.denied\",\"sandbox_id\":\"s\\u001b[2J\",\"detail\":"
                 "{\"dst_endpoint\":{\"hostname\":\"h%d\"}}}",
                 i);
        CHECK(top_add_denial(&top, str_from(text)));
    }
    check_drawn_line(80, 0, "0 sandboxes by cpu, 69 denials");
    check_drawn_line(80, 4, "DENIED");
    check_drawn_line(80, 5, "-       s\\x1b[2J  h68");
    top_done(&top);
}

TEST(every_size_has_a_frame)
{
    top_init(&top);
    set_pane(TOP_SANDBOXES, "[" BOX("sbx_a", "3", "2", "3") "," BOX("sbx_b", "2", "9", "1") "]");
    set_pane(TOP_APPROVALS, "[{\"request_id\":\"req_1\"}]");
    top_add_denial(&top, STR("{\"type\":\"egress.denied\"}"));
    for (int mode = TOP_TABLES; mode <= TOP_CONFIRM; mode++) {
        top.mode = (enum top_mode)mode;
        for (uint16_t rows = 0; rows < 40; rows++)
            for (uint16_t columns = 0; columns < 220; columns += 11) {
                AUTO(frame_done) struct frame f;

                frame_init(&f, rows, columns);
                top_draw(&top, 0, &f);
                CHECK_INT(f.n, rows);
            }
    }
    top_done(&top);
}
