/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/received.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "domain/policy/egress_file.h"

static struct err e;
static struct egress_snapshot *got;

/* A memfd that holds this. */
static int with(struct str text)
{
    int fd = memfd_create("text", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n);
    return fd;
}

/* The ceiling comes behind the policy. */
static const struct str ceiling = STR("{\"reach\":\"public\",\"from\":\"x\"}");

static int receive(const int *fds, size_t n)
{
    struct wire_box m = { .id = "sbx_a", .generation = 7 };
    AUTO(ipc_fds_done) struct ipc_fds list = { .n = n };

    memcpy(list.fd, fds, n * sizeof *fds);
    got = NULL;
    e = (struct err){ 0 };
    return received_policy(&m, &list, &got, &e);
}

static int receive_text(struct str text)
{
    return receive((const int[]){ with(text), with(ceiling) }, 2);
}

/* Refused with these words, and nothing handed out. */
static void check_refused(int r, const char *words)
{
    CHECK(r < 0 && !got);
    if (!strstr(e.msg, words))
        FAIL("'%s' does not say '%s'", e.msg, words);
}

static void check_taken(int r, const char *host, bool allowed)
{
    struct egress_connect_query ask = { .host = str_from(host),
                                        .port = 443,
                                        .identity_known = true };
    struct egress_match match;
    struct egress_reason why;

    CHECK_OK(r, e);
    CHECK_INT(egress_snapshot_generation(got), 7);
    if ((egress_connect(got, &ask, &match, &why) == EGRESS_ALLOWED) != allowed)
        FAIL("%s: %s", host, why.text);
    egress_snapshot_unref(got);
}

#define ENDPOINT(host) "{\"endpoints\":[{\"host\":\"" host "\",\"port\":443}],"
#define BINARIES       "\"binaries\":[{\"path\":\"/**\"}]}"

TEST(a_policy_of_json_is_compiled)
{
    const struct str good =
        STR("{\"version\":1,\"network_policies\":{\"a\":" ENDPOINT("a.example") BINARIES "}}");

    check_taken(receive_text(good), "a.example", true);
    check_taken(receive_text(good), "b.example", false);
}

TEST(what_is_no_policy_is_refused)
{
    static const struct {
        struct str text;
        const char *words;
    } bad[] = {
        { STR(""), "" },
        { STR("{"), "" },
        { STR("version: 1\n"), "" },
        { STR("[]"), "" },
        { STR("{\"version\":2}"), "version" },
        { STR("{\"version\":1,\"what\":2}"), "what" },
        { STR("{\"version\":1}\0"), "" },
        { STR("{\"version\":1,\"version\":1}"), "twice" },
        { STR("{\"version\":1,\"network_policies\":{\"a\":" ENDPOINT("a\\u0000b") BINARIES "}}"),
          "" },
        { STR("{\"version\":1,\"network_policies\":{\"a\":" ENDPOINT("169.254.169.254") BINARIES
              "}}"),
          "metadata" },
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        check_refused(receive_text(bad[i].text), bad[i].words);
}

TEST(it_comes_as_one_file_with_its_ceiling)
{
    int fds[2] = { with(STR("{\"version\":1}")), with(STR("{\"version\":1}")) };

    check_refused(receive(fds, 0), "two descriptors");
    check_refused(receive(fds, 2), "ceiling");
    fds[0] = with(STR("{\"version\":1}"));
    check_refused(receive(fds, 1), "policy and ceiling");
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    check_refused(receive((const int[]){ fds[0], with(ceiling) }, 2),
                  "a policy must be a regular file");
    close(fds[1]);
    fds[0] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check_refused(receive((const int[]){ fds[0], with(ceiling) }, 2),
                  "a policy must be a regular file");
}

TEST(its_size_is_bounded)
{
    int fd = memfd_create("huge", MFD_CLOEXEC);

    CHECK(ftruncate(fd, (off_t)1 << 40) == 0);
    check_refused(receive((const int[]){ fd, with(ceiling) }, 2), "at most");
    fd = memfd_create("zeroes", MFD_CLOEXEC);
    CHECK(ftruncate(fd, EGRESS_JSON_BYTES_MAX) == 0); /* as long as may be, and nonsense */
    check_refused(receive((const int[]){ fd, with(ceiling) }, 2), "");
}

TEST(where_the_descriptor_stands_does_not_matter)
{
    int fd = with(STR("{\"version\":1}"));

    CHECK(lseek(fd, 3, SEEK_SET) == 3);
    check_taken(receive((const int[]){ fd, with(ceiling) }, 2), "a.example", false);
}

TEST(one_that_cannot_be_read_is_refused)
{
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* a file of no bytes */

    CHECK(fd >= 0);
    check_refused(receive((const int[]){ fd, with(ceiling) }, 2), "");
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    check_refused(receive((const int[]){ fd, with(ceiling) }, 2),
                  "a policy must be a regular file");
}

/* --- Texts --- */

/* NULL: none was announced and none came. */
static int receive_texts(const char *file, const char *allow)
{
    struct wire_texts m = { .id = "sbx_a",
                            .generation = 7,
                            .has_file = file != NULL,
                            .has_allow = allow != NULL,
                            .name = "policy.yaml" };
    AUTO(ipc_fds_done) struct ipc_fds list = { .n = 0 };

    if (file)
        list.fd[list.n++] = with(str_from(file));
    if (allow)
        list.fd[list.n++] = with(str_from(allow));
    got = NULL;
    e = (struct err){ 0 };
    return received_texts(&m, &list, &got, &e);
}

#define FILE_TEXT                                                                                  \
    "version: 1\nnetwork_policies:\n  a:\n    endpoints: [{host: file.example, port: 443}]\n"      \
    "    binaries: [{path: /**}]\n"

TEST(a_file_items_and_both)
{
    check_taken(receive_texts(FILE_TEXT, NULL), "file.example", true);
    check_taken(receive_texts(FILE_TEXT, NULL), "item.example", false);
    check_taken(receive_texts(NULL, "item.example\n*.more.example:443\n"), "item.example", true);
    check_taken(receive_texts(NULL, "item.example"), "item.example", true);
    check_taken(receive_texts(NULL, "item.example"), "file.example", false);
    check_taken(receive_texts(FILE_TEXT, "item.example\n"), "file.example", true);
    check_taken(receive_texts(FILE_TEXT, "item.example\n"), "item.example", true);
}

TEST(nothing_allows_nothing)
{
    check_taken(receive_texts(NULL, NULL), "a.example", false);
    check_taken(receive_texts(NULL, ""), "a.example", false);
}

TEST(messages_say_which_text_is_meant)
{
    check_refused(receive_texts("", NULL), "policy.yaml: ");
    check_refused(receive_texts("version: 1\nwhat: 2\n", NULL), "policy.yaml: line 2: what");
    check_refused(receive_texts(FILE_TEXT, "a b"), "--allow: ");
    check_refused(receive_texts(NULL, "a.example\n\nb.example\n"), "--allow: ");
    check_refused(receive_texts(NULL, "a.example:0\n"), "--allow: ");
    check_refused(receive_texts(NULL, "169.254.169.254\n"), "--allow: ");
    check_refused(receive_texts("version: 1\n---\nversion: 1\n", "a.example"), "policy.yaml: ");
}

static int receive_items(struct str items)
{
    struct wire_texts m = { .id = "sbx_a", .generation = 7, .has_allow = 1 };
    AUTO(ipc_fds_done) struct ipc_fds list = { .n = 1 };

    list.fd[0] = with(items);
    got = NULL;
    e = (struct err){ 0 };
    return received_texts(&m, &list, &got, &e);
}

TEST(an_item_does_not_end_before_its_line)
{
    check_refused(receive_items(STR("a.example\0.evil.example\n")), "NUL");
    check_refused(receive_items(STR("a.example\n\0")), "item 2");
    check_refused(receive_items(STR("a.example\r\n")), "--allow: ");
}

TEST(items_are_bounded)
{
    static char many[2 * (EGRESS_ENDPOINTS_MAX + 1)];
    AUTO(buf_done) struct buf long_one = BUF_INIT(EGRESS_FILE_BYTES_MAX + 1);

    for (size_t i = 0; i < sizeof many; i++)
        many[i] = i % 2 ? '\n' : 'a';
    check_refused(receive_items((struct str){ many, sizeof many }), "more than");
    for (size_t i = 0; i < EGRESS_FILE_BYTES_MAX; i++)
        buf_add(&long_one, STR("a"));
    check_refused(receive_items(buf_str(&long_one)), "--allow: ");
    buf_add(&long_one, STR("a"));
    check_refused(receive_items(buf_str(&long_one)), "at most");
}

TEST(what_comes_is_what_was_announced)
{
    static const struct {
        uint32_t has_file, has_allow;
        size_t n;
    } odd[] = { { 0, 0, 1 }, { 1, 0, 0 }, { 1, 0, 2 }, { 0, 1, 0 }, { 1, 1, 1 }, { 1, 1, 3 } };

    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        struct wire_texts m = { .id = "sbx_a",
                                .generation = 7,
                                .has_file = odd[i].has_file,
                                .has_allow = odd[i].has_allow };
        AUTO(ipc_fds_done) struct ipc_fds list = { .n = 0 };

        while (list.n < odd[i].n)
            list.fd[list.n++] = with(STR("a.example"));
        got = NULL;
        check_refused(received_texts(&m, &list, &got, &e), "number of descriptors");
    }
}
