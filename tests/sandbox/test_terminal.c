/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in a terminal. */
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "box.h"

static void start_shell(struct box *b, const char *script, struct job *ret)
{
    struct process_start s = sh_start(script);

    s.flags = START_TTY;
    s.rows = 33;
    s.cols = 77;
    CHECK(job_start(b, &s, ret, NULL));
}

static void type(const struct job *j, const char *text)
{
    CHECK(write(j->out, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Not job_end() at once: closing the master would hang it up. */
static void end_by_itself(struct box *b, struct job *j, struct control_exited *ret)
{
    for (char c; read_some(j->out, &c, 1) == 1;)
        ;
    job_end(b, j, ret);
}

BOX_TEST(it_is_a_terminal_of_the_size_asked_for)
{
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    start_shell(&b, "test -t 0 && test -t 1 && test -t 2 && stty size && tty && exit 4", &j);
    await_word(j.out, "33 77");
    await_word(j.out, "/dev/pts/");
    end_by_itself(&b, &j, &end);
    CHECK_INT(end.status, 4);
    box_close(&b);
}

BOX_TEST(a_new_size_is_told_to_the_program)
{
    struct winsize size = { .ws_row = 40, .ws_col = 120 };
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    start_shell(&b, "trap 'stty size; exit 6' WINCH; echo ready; while :; do sleep 0.02; done", &j);
    await_word(j.out, "ready");
    CHECK(ioctl(j.out, TIOCSWINSZ, &size) == 0);
    await_word(j.out, "40 120");
    end_by_itself(&b, &j, &end);
    CHECK_INT(end.status, 6);
    box_close(&b);
}

BOX_TEST(typing_is_read_and_control_c_interrupts)
{
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    start_shell(&b, "stty -echo; echo ready; read x; echo got-$x; exec sleep 100", &j);
    await_word(j.out, "ready");
    type(&j, "abc\n");
    await_word(j.out, "got-abc");
    type(&j, "\003");
    end_by_itself(&b, &j, &end);
    CHECK_INT(end.how, CONTROL_BY_SIGNAL);
    CHECK_INT(end.status, SIGINT);
    box_close(&b);
}

BOX_TEST(hanging_up_is_told_to_the_program)
{
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    start_shell(&b, "echo ready; exec sleep 100", &j);
    await_word(j.out, "ready");
    job_end(&b, &j, &end);
    CHECK_INT(end.how, CONTROL_BY_SIGNAL);
    CHECK_INT(end.status, SIGHUP);
    box_close(&b);
}
