/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static char directory[] = "/tmp/sandboxer-test-XXXXXX";
static struct err e;

static void clean_up(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/sandboxerd", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/sandboxerd.log", directory);
    unlink(path);
    rmdir(directory);
}

/* A sandboxerd in PATH that is this script. */
static void play(const char *script)
{
    char path[128], text[512];
    FILE *file;

    CHECK(mkdtemp(directory) != NULL);
    atexit(clean_up);
    snprintf(path, sizeof path, "%s/sandboxerd", directory);
    file = fopen(path, "we");
    CHECK(file != NULL);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    CHECK(chmod(path, 0755) == 0);
    snprintf(text, sizeof text, "%s:/usr/bin:/bin", directory);
    setenv("PATH", text, 1);
    setenv("SANDBOXER_STATE", directory, 1);
}

TEST(daemon_gets_ready)
{
    play("test \"$*\" = '--on-demand --ready-fd 3' && test \"$PWD\" = / && printf x >&3");
    CHECK_INT(daemon_start(&e), 1);
}

TEST(daemon_is_told_where_to_listen)
{
    play("test \"$*\" = '--on-demand --ready-fd 3 --listen=127.0.0.1:1' && printf x >&3");
    CHECK_INT(daemon_start_listening("127.0.0.1:1", &e), 1);
}

TEST(daemon_is_not_the_first)
{
    play("printf 'somebody else is running' >&3; exit 75");
    CHECK_INT(daemon_start(&e), 0);
}

TEST(daemon_says_why_not)
{
    play("printf 'the store is damaged' >&3; exit 1");
    CHECK_INT(daemon_start(&e), -ERR_UPSTREAM);
    CHECK(strstr(e.msg, "the store is damaged") != NULL);
}

TEST(daemon_dies_without_a_word)
{
    play("echo to the log >&2; exit 9");
    CHECK_INT(daemon_start(&e), -ERR_UPSTREAM);
    CHECK(strstr(e.msg, "status 9") != NULL && strstr(e.msg, "sandboxerd.log") != NULL);
}

TEST(daemon_has_nothing_of_ours)
{
    char path[128], log[128] = "";
    AUTO_CLOSE int file = -1;
    int extra = open("/dev/null", O_RDONLY); /* not close-on-exec */

    play("ls /proc/self/fd | tr '\\n' ' ' >&2; test $(cut -d' ' -f6 /proc/self/stat) != $PPID; "
         "exit 1");
    CHECK(extra >= 0 && daemon_start(&e) == -ERR_UPSTREAM);
    snprintf(path, sizeof path, "%s/sandboxerd.log", directory);
    file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && read(file, log, sizeof log - 1) > 0);
    CHECK_STR(str_trim(str_from(log)), "0 1 2 3 4"); /* 4: the directory that ls reads */
}

TEST(daemon_is_nowhere)
{
    setenv("PATH", "/nonexistent", 1);
    CHECK_INT(daemon_start(&e), -ERR_NOT_FOUND);
}
