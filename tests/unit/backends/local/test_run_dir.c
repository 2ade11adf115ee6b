/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/local/local.h"
#include "harness/tap.h"

static const char id[] = "sbx_00000000000000000000";

/* A state directory whose path is longer than any socket's address; removed by done(). */
static char top[] = "/tmp/run-dir-XXXXXX";
static int state;
static struct run_dir run;

static void begin(void)
{
    char part[101];
    struct err e;

    memset(part, 'd', 100);
    part[100] = '\0';
    CHECK(mkdtemp(top));
    CHECK(chdir(top) == 0 && mkdir(part, 0700) == 0 && chdir(part) == 0);
    CHECK(mkdir(part, 0700) == 0);
    state = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(state >= 0);
    CHECK_OK(run_dir_open(&run, state, &e), e);
}

static void done(void)
{
    char part[101];

    memset(part, 'd', 100);
    part[100] = '\0';
    run_dir_done(&run);
    CHECK(unlinkat(state, "run", AT_REMOVEDIR) == 0);
    close(state);
    CHECK(rmdir(part) == 0 && chdir(top) == 0 && rmdir(part) == 0 && rmdir(top) == 0);
}

TEST(a_directory_is_made_once_and_removed_with_its_content)
{
    struct err e;
    int sock;

    begin();
    CHECK(!run_dir_has(&run, id));
    CHECK_OK(run_dir_make(&run, id, &e), e);
    CHECK_INT(run_dir_make(&run, id, &e), -ERR_CONFLICT);
    CHECK_OK(run_dir_bind(&run, id, &sock, &e), e);
    CHECK_OK(run_dir_save(&run, id, STR("x\0y\0"), &e), e);
    CHECK(run_dir_has(&run, id));
    CHECK_OK(run_dir_remove(&run, id, &e), e);
    CHECK_OK(run_dir_remove(&run, id, &e), e);
    CHECK(!run_dir_has(&run, id));
    close(sock);
    done();
}

TEST(connecting_needs_somebody_who_listens)
{
    struct err e;
    int sock, client;
    char byte;

    begin();
    CHECK_INT(run_dir_connect(&run, id, &client, &e), -ERR_NOT_FOUND);
    CHECK_OK(run_dir_make(&run, id, &e), e);
    CHECK_INT(run_dir_connect(&run, id, &client, &e), -ERR_NOT_FOUND);
    CHECK_OK(run_dir_bind(&run, id, &sock, &e), e);
    CHECK_OK(run_dir_connect(&run, id, &client, &e), e);
    CHECK(recv(client, &byte, 1, 0) < 0 && errno == EAGAIN);
    close(sock); /* nobody will ever accept it */
    CHECK(recv(client, &byte, 1, 0) <= 0 && errno != EAGAIN);
    close(client);
    CHECK_INT(run_dir_connect(&run, id, &client, &e), -ERR_NOT_FOUND);
    CHECK_OK(run_dir_remove(&run, id, &e), e);
    done();
}

TEST(defaults_come_back_and_have_a_limit)
{
    struct buf b AUTO(buf_done) = BUF_INIT(BACKEND_DEFAULTS_MAX),
                 small AUTO(buf_done) = BUF_INIT(16);
    static char text[5000];
    struct err e;

    begin();
    memset(text, 'x', sizeof text);
    CHECK_OK(run_dir_make(&run, id, &e), e);
    CHECK_INT(run_dir_load(&run, id, &b, &e), -ERR_SYS);
    CHECK_OK(run_dir_save(&run, id, (struct str){ text, sizeof text }, &e), e);
    CHECK_OK(run_dir_load(&run, id, &b, &e), e);
    CHECK(str_eq(buf_str(&b), (struct str){ text, sizeof text }));
    CHECK_INT(run_dir_load(&run, id, &small, &e), -ERR_TOO_BIG);
    CHECK_OK(run_dir_remove(&run, id, &e), e);
    done();
}

static void count(void *user, const char *found)
{
    CHECK(strcmp(found, id) == 0);
    ++*(int *)user;
}

TEST(only_ids_are_listed)
{
    struct err e;
    int n = 0;

    begin();
    CHECK_OK(run_dir_make(&run, id, &e), e);
    CHECK(mkdirat(run.fd, "not-an-id", 0700) == 0);
    CHECK_OK(run_dir_each(&run, count, &n, &e), e);
    CHECK_INT(n, 1);
    CHECK(unlinkat(run.fd, "not-an-id", AT_REMOVEDIR) == 0);
    CHECK_OK(run_dir_remove(&run, id, &e), e);
    done();
}
