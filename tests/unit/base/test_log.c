/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static char printed[16384];

static struct str printable(struct str s)
{
    log_printable(s, printed, sizeof printed);
    return str_from(printed);
}

/* Everything written to stderr from here on goes to the descriptor returned. */
static int capture(void)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC);

    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    return fd;
}

static struct str captured(int fd)
{
    ssize_t n = pread(fd, printed, sizeof printed - 1, 0);

    CHECK(n >= 0);
    printed[n] = '\0';
    return (struct str){ printed, (size_t)n };
}

/* Repeats c to fill text. */
static struct str filled(char *text, size_t n, char c)
{
    memset(text, c, n);
    return (struct str){ text, n };
}

TEST(text_stays_text)
{
    CHECK_STR(printable(STR("plain ~ text")), "plain ~ text");
    CHECK_STR(printable(STR("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80")),
              "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    CHECK_STR(printable(STR("\xC2\xA0")), "\xC2\xA0");
    CHECK_STR(printable((struct str){ NULL, 0 }), "");
}

TEST(controls_are_escaped)
{
    CHECK_STR(printable(STR("\x1b[31mred\x07")), "\\x1b[31mred\\x07");
    CHECK_STR(printable(STR("a\nb\r\t\x7f")), "a\\x0ab\\x0d\\x09\\x7f");
    CHECK_STR(printable(STR("a\0b")), "a\\x00b");
    CHECK_STR(printable(STR("\\x1b")), "\\x5cx1b"); /* cannot be taken for an escape of ours */
}

TEST(turns_of_the_direction_of_writing_are_escaped)
{
    CHECK_STR(printable(STR("a\xE2\x80\xAE"
                            "b")),
              "a\\xe2\\x80\\xaeb");
    CHECK_STR(printable(STR("\xE2\x81\xA6\xE2\x81\xA9")), "\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
    CHECK_STR(printable(STR("\xE2\x80\xA9\xE2\x81\xAA")), "\xE2\x80\xA9\xE2\x81\xAA");
}

TEST(c1_controls_are_escaped)
{
    CHECK_STR(printable(STR("\xC2\x9B"
                            "31m")),
              "\\xc2\\x9b31m");
    CHECK_STR(printable(STR("\xC2\x80\xC2\x9F")), "\\xc2\\x80\\xc2\\x9f");
    CHECK_STR(printable(STR("\x9B"
                            "31m")),
              "\\x9b31m");
}

TEST(broken_utf8_is_escaped)
{
    CHECK_STR(printable(STR("\xC2"
                            "A")),
              "\\xc2A");
    CHECK_STR(printable(STR("\xC2\x1b[m")), "\\xc2\\x1b[m");
    CHECK_STR(printable(STR("\xE2\x82")), "\\xe2\\x82");
    CHECK_STR(printable(STR("\xFF\xFE")), "\\xff\\xfe");
    CHECK_STR(printable(STR("\xE2\x9B\x1b")), "\\xe2\\x9b\\x1b");
}

TEST(no_byte_a_terminal_acts_on_gets_through)
{
    for (unsigned first = 0; first < 256; first++)
        for (unsigned second = 0; second < 256; second++) {
            char in[2] = { (char)first, (char)second };
            struct str out = printable((struct str){ in, 2 });

            CHECK(str_is_utf8(out));
            for (size_t i = 0; i < out.n; i++)
                CHECK((unsigned char)out.p[i] >= 0x20 && out.p[i] != 0x7F);
        }
}

TEST(what_does_not_fit_is_cut_at_a_character)
{
    char out[8];

    log_printable(STR("1234567"), out, sizeof out);
    CHECK_STR(str_from(out), "1234567");
    log_printable(STR("12345678"), out, sizeof out);
    CHECK_STR(str_from(out), "1234567");
    log_printable(STR("12345\x1b"), out, sizeof out);
    CHECK_STR(str_from(out), "12345");
    log_printable(STR("12345\xE2\x82\xAC"), out, sizeof out);
    CHECK_STR(str_from(out), "12345");
    log_printable(STR("abc"), out, 1);
    CHECK_STR(str_from(out), "");
    memcpy(out, "old", 4);
    log_printable(STR("abc"), out, 0);
    CHECK_STR(str_from(out), "old");
}

TEST(plain_lines)
{
    int fd = capture();
    struct str line;

    log_setup(LOG_INFO, LOG_PLAIN);
    LOG(INFO, "thing.ready", LOG_S("id", "x\n1"), LOG_I("us", -5));
    line = captured(fd);
    CHECK(str_ends(line, STR("Z info thing.ready id=x\\x0a1 us=-5\n")));
    CHECK_INT(str_find(line, '\n'), line.n - 1);
}

TEST(json_lines)
{
    int fd = capture();
    struct str line;

    log_setup(LOG_INFO, LOG_JSON);
    LOG(WARN, "thing.odd", LOG_S("text", "\"\\\x1b\xC2\x9B\xC3\xA9\xFF\x7f"), LOG_I("n", INT64_MIN),
        LOG_STR("part", ((struct str){ "abc", 2 })), LOG_S("none", NULL));
    line = captured(fd);
    CHECK(str_starts(line, STR("{\"time\":\"20")));
    CHECK(str_ends(line, STR("Z\",\"level\":\"warn\",\"event\":\"thing.odd\","
                             "\"text\":\"\\\"\\\\\\u001b\\u009b\xC3\xA9\\ufffd\\u007f\","
                             "\"n\":-9223372036854775808,\"part\":\"ab\",\"none\":\"\"}\n")));
}

TEST(levels)
{
    int fd = capture();

    log_setup(LOG_WARN, LOG_PLAIN);
    LOG(INFO, "quiet");
    LOG(DEBUG, "quiet");
    CHECK_INT(captured(fd).n, 0);
    LOG(ERROR, "loud");
    CHECK(str_ends(captured(fd), STR(" error loud\n")));
}

/* Values that grow sixfold by escaping, and more of them than a line holds. */
TEST(a_line_that_is_too_long_still_ends_properly)
{
    char text[3000];
    struct str s = filled(text, sizeof text, '\x1b'), line;
    int fd = capture();

    log_setup(LOG_INFO, LOG_JSON);
    LOG(INFO, "big", LOG_STR("a", s), LOG_STR("b", s), LOG_STR("c", s), LOG_STR("d", s),
        LOG_STR("e", s), LOG_I("last", 1));
    line = captured(fd);
    CHECK(line.n <= 4096);
    CHECK(str_ends(line, STR("\\u001b\",\"last\":1,\"lost_fields\":2}\n")));

    CHECK_INT(ftruncate(fd, 0), 0);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    log_setup(LOG_INFO, LOG_PLAIN);
    LOG(INFO, "big", LOG_STR("a", s), LOG_STR("b", s), LOG_STR("c", s), LOG_STR("d", s));
    line = captured(fd);
    CHECK(line.n <= 4096);
    CHECK(str_ends(line, STR("\\x1b lost_fields=1\n")));
    CHECK_INT(str_find(line, '\n'), line.n - 1);
}
