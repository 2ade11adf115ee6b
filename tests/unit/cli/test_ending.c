/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ending.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/tap.h"

static int said_to = -1;

/* Puts a file in the place of stderr. */
static void listen_to_stderr(void)
{
    char name[] = "/tmp/test_ending.XXXXXX";

    said_to = mkstemp(name);
    CHECK(said_to >= 0 && unlink(name) == 0 && dup2(said_to, STDERR_FILENO) == STDERR_FILENO);
}

/* What was said since the last call. */
static const char *said(void)
{
    static char text[512];
    ssize_t n;

    fflush(stderr);
    n = pread(said_to, text, sizeof text - 1, 0);
    CHECK(n >= 0 && ftruncate(said_to, 0) == 0 && lseek(said_to, 0, SEEK_SET) == 0);
    text[n] = '\0';
    return text;
}

TEST(a_timeout_is_named_where_it_is_known)
{
    listen_to_stderr();
    ending_timed_out(1500 * NS_PER_MS);
    CHECK_STR(str_from(said()), "sandboxer: timed out after 1500 ms\n");
    ending_timed_out(0);
    CHECK_STR(str_from(said()), "sandboxer: timed out\n");
}

TEST(what_the_memory_limit_did_is_told)
{
    listen_to_stderr();
    ending_memory(&(struct ending_memory){ 0, 1 << 20, true }, false);
    CHECK_STR(str_from(said()), "");
    ending_memory(&(struct ending_memory){ 1, 64 << 20, true }, true);
    CHECK_STR(str_from(said()), "sandboxer: killed: out of memory (limit 64M)\n");
    ending_memory(&(struct ending_memory){ 2, 0, false }, false);
    CHECK_STR(str_from(said()), "sandboxer: note: 2 processes were killed: out of memory\n");
    ending_memory(&(struct ending_memory){ 1, 0, false }, false);
    CHECK_STR(str_from(said()), "sandboxer: note: 1 process was killed: out of memory\n");
    ending_memory(&(struct ending_memory){ 1, 0, false }, true);
    CHECK_STR(str_from(said()), "");
}
