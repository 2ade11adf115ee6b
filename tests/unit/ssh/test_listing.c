#include "ssh/listing.h"

#include "harness/tap.h"

TEST(what_the_loader_says_is_read)
{
    struct str text =
        STR("\tlinux-vdso.so.1 (0x00007f0da44b7000)\n"
            "\tlibcrypt.so.1 => /lib/x86_64-linux-gnu/libcrypt.so.1 (0x00007f0da4467000)\n"
            "\tlibz.so.1 => not found\n"
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f0da44b9000)\n"
            "\tlibc.so.6 => /lib/libc.so.6");
    struct ssh_needed n;

    CHECK(ssh_listing_next(&text, &n));
    CHECK(str_eq(n.path, STR("/lib/x86_64-linux-gnu/libcrypt.so.1")));
    CHECK(!n.loader && !n.missing.n);
    CHECK(ssh_listing_next(&text, &n));
    CHECK(str_eq(n.missing, STR("libz.so.1")));
    CHECK(ssh_listing_next(&text, &n));
    CHECK(n.loader && str_eq(n.path, STR("/lib64/ld-linux-x86-64.so.2")));
    CHECK(ssh_listing_next(&text, &n));
    CHECK(!n.loader && str_eq(n.path, STR("/lib/libc.so.6")));
    CHECK(!ssh_listing_next(&text, &n));
}

TEST(lines_that_say_nothing_are_passed_over)
{
    struct str text = STR("\tstatically linked\n\n => \nx =>\n =");
    struct ssh_needed n;

    CHECK(ssh_listing_next(&text, &n)); /* "x =>": not there */
    CHECK(str_eq(n.missing, STR("x")));
    CHECK(!ssh_listing_next(&text, &n));
}
