/* SPDX-License-Identifier: Apache-2.0 */
/* A unit test:
 *
 *     TEST(buf_refuses_to_pass_its_ceiling)
 *     {
 *         struct buf b = BUF_INIT(4);
 *
 *         CHECK(buf_add(&b, STR("12345")) == -ERR_TOO_BIG);
 *         CHECK_INT(b.n, 0);
 *     }
 *
 * Tests register themselves, each runs in a process of its own (a crash fails that test only), and
 * the program prints TAP. Arguments select tests by name. SKIP() ends a test that this machine
 * cannot run. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct tap_test {
    const char *name;
    void (*run)(void);
    struct tap_test *next;
};

void tap_register(struct tap_test *t);
void tap_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void tap_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#define TEST(id)                                                                                   \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void register_##id(void)                                   \
    {                                                                                              \
        static struct tap_test t = { .name = #id, .run = test_##id };                              \
        tap_register(&t);                                                                          \
    }                                                                                              \
    static void test_##id(void)

#define SKIP(...) tap_skip(__VA_ARGS__)
#define FAIL(...) tap_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            FAIL("%s", #cond);                                                                     \
    } while (0)

#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_)                                                                         \
            FAIL("%s is %lld, not %lld", #got, got_, want_);                                       \
    } while (0)

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        struct str got_ = (got), want_ = str_from(want);                                           \
        if (!str_eq(got_, want_))                                                                  \
            FAIL("%s is '" STR_FMT "', not '" STR_FMT "'", #got, STR_ARG(got_), STR_ARG(want_));   \
    } while (0)

/* The call succeeded; shows the error if not. `e` is the struct err it filled. */
#define CHECK_OK(call, e)                                                                          \
    do {                                                                                           \
        int r_ = (call);                                                                           \
        if (r_ < 0)                                                                                \
            FAIL("%s: %d: %s", #call, r_, (e).msg);                                                \
    } while (0)

#endif
