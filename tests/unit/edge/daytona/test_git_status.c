/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/git_status.h"
#include "base/own.h"
#include "harness/tap.h"

static void show(struct str text, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    git_status_write(&w, text);
    CHECK(json_writer_finish(&w, NULL) >= 0);
}

TEST(a_status_is_read)
{
    struct buf out AUTO(buf_done) = BUF_INIT(4096);
    static const char text[] =
        "# branch.oid 1234\0# branch.head main\0# branch.upstream up/main\0# branch.ab +1 -2\0"
        "1 .M N... 100644 100644 100644 a b a b c\0"
        "2 R. N... 100644 100644 100644 a b R100 new name\0old name\0"
        "u UU N... 1 2 3 4 a b c both\0"
        "? not known";

    show((struct str){ text, sizeof text }, &out);
    CHECK_STR(
        buf_str(&out),
        "{\"fileStatus\":["
        "{\"name\":\"a b c\",\"staging\":\"Unmodified\",\"worktree\":\"Modified\",\"extra\":\"\"},"
        "{\"name\":\"new "
        "name\",\"staging\":\"Renamed\",\"worktree\":\"Unmodified\",\"extra\":\"old name\"},"
        "{\"name\":\"both\",\"staging\":\"Updated but unmerged\",\"worktree\":\"Updated but "
        "unmerged\",\"extra\":\"\"},"
        "{\"name\":\"not "
        "known\",\"staging\":\"Untracked\",\"worktree\":\"Untracked\",\"extra\":\"\"}],"
        "\"currentBranch\":\"main\",\"detached\":false,\"branchPublished\":true,"
        "\"upstream\":\"up/main\",\"ahead\":1,\"behind\":2}");
}

TEST(what_is_none_is_passed_over)
{
    static const struct str rows[] = { STR(""), STR("1"), STR("2 "), STR("x y\0#"),
                                       STR("1 .M N...\0") };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out AUTO(buf_done) = BUF_INIT(4096);

        show(rows[i], &out);
        CHECK_STR(buf_str(&out), "{\"fileStatus\":[],\"currentBranch\":\"\",\"detached\":false,"
                                 "\"branchPublished\":false,\"ahead\":0,\"behind\":0}");
    }
}
