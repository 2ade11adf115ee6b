/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/tar/remove.h"

static char path[] = "/tmp/seal-XXXXXX";

static void end(void)
{
    AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

    tree_remove(tmp, path + 5, NULL);
}

static int begin(void)
{
    CHECK(mkdtemp(path) != NULL);
    atexit(end);
    return open(path, O_RDONLY | O_DIRECTORY);
}

static void put(int dir, const char *name, const char *text, mode_t mode)
{
    AUTO_CLOSE int file = openat(dir, name, O_WRONLY | O_CREAT, 0600);

    CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK_INT(fchmod(file, mode), 0);
}

TEST(files_are_listed_with_what_they_are)
{
    AUTO(attest_files_done) struct attest_files f = { 0 };
    AUTO_CLOSE int dir = begin();

    put(dir, "script", "#!/bin/sh\n", 0755);
    put(dir, "empty", "", 0644);
    CHECK_INT(mkdirat(dir, "sub", 0700), 0);
    put(dir, "sub/elf", "\177ELF", 0600);
    CHECK_INT(symlinkat("../script", dir, "sub/link"), 0);
    CHECK_INT(attest_files_read(&f, dir, NULL), 0);
    CHECK_INT(f.n, 5);
    CHECK_STR(str_from(f.p[0].path), "empty");
    CHECK_STR(str_from(f.p[0].sha256),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_INT(f.p[1].content, ATTEST_SCRIPT);
    CHECK_INT(f.p[1].mode, 0755);
    CHECK_INT(f.p[2].kind, ATTEST_DIRECTORY);
    CHECK_STR(str_from(f.p[3].path), "sub/elf");
    CHECK_INT(f.p[3].content, ATTEST_ELF);
    CHECK_STR(str_from(f.p[4].target), "../script");
}

static const char *refused(struct attest_file f)
{
    const struct attest_limits limits = { .file_bytes = 100, .bytes = 1000, .files = 10 };
    const char *rule;

    if (!f.path)
        f.path = "a/b";
    attest_refusal(&f, &limits, &rule);
    return rule ? rule : "";
}

TEST(what_may_not_leave)
{
    static const struct {
        struct attest_file file;
        const char *rule;
    } rows[] = {
        { { .kind = ATTEST_FILE, .mode = 0755 }, "" },
        { { .kind = ATTEST_FILE, .mode = 04755 }, "setuid" },
        { { .kind = ATTEST_FILE, .mode = 02755 }, "setuid" },
        { { .kind = ATTEST_DIRECTORY, .mode = 02755 }, "" },
        { { .kind = ATTEST_OTHER }, "kind" },
        { { .kind = ATTEST_FILE, .size = 101 }, "size" },
        { { .kind = ATTEST_FILE, .path = "a\nb" }, "name" },
        { { .kind = ATTEST_FILE, .path = "a\xff" }, "name" },
        { { .kind = ATTEST_LINK, .target = "../c" }, "" },
        { { .kind = ATTEST_LINK, .target = "./../x/../c" }, "link" },
        { { .kind = ATTEST_LINK, .target = "../../c" }, "link" },
        { { .kind = ATTEST_LINK, .target = "/etc/passwd" }, "link" },
        { { .kind = ATTEST_LINK, .target = "x/../../../a/b" }, "link" },
        { { .kind = ATTEST_LINK, .target = "here/.." }, "link" }, /* `here` may be a link to "." */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(str_from(refused(rows[i].file)), rows[i].rule);
}

static int differences(int dir, struct str manifest)
{
    AUTO(attest_files_done) struct attest_files f = { 0 };
    FILE *to = fopen("/dev/null", "w");
    int r;

    CHECK_INT(attest_files_read(&f, dir, NULL), 0);
    r = attest_verify(manifest, &f, to, NULL);
    fclose(to);
    return r;
}

TEST(a_directory_is_compared_with_its_manifest)
{
    AUTO(attest_files_done) struct attest_files f = { 0 };
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 16);
    AUTO_CLOSE int dir = begin();
    struct json_writer w;

    put(dir, "a", "one", 0644);
    put(dir, "b", "two", 0644);
    CHECK_INT(attest_files_read(&f, dir, NULL), 0);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("version"));
    json_put_int(&w, 1);
    json_key(&w, STR("files"));
    attest_files_write(&f, &w);
    json_end_object(&w);
    CHECK_INT(json_writer_finish(&w, NULL), 0);
    CHECK_INT(differences(dir, buf_str(&text)), 0);
    CHECK_INT(fchmodat(dir, "a", 0600, 0), 0);
    CHECK_INT(differences(dir, buf_str(&text)), 1);
    put(dir, "b", "TWO", 0644);
    put(dir, "c", "", 0644);
    CHECK_INT(differences(dir, buf_str(&text)), 3);
    CHECK_INT(unlinkat(dir, "a", 0), 0);
    CHECK_INT(differences(dir, buf_str(&text)), 3);
    CHECK_INT(differences(dir, STR("{\"version\":2,\"files\":[]}")), -(int)ERR_INVALID);
}
