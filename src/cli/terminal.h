/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's terminal, lent to a program in a sandbox. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct terminal {
    bool raw;
    struct termios before;
};

void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);
/* Of the terminal behind the descriptor; 80 if it does not know. */
unsigned terminal_columns(int fd);
/* Passes the caller's size on to a terminal in a sandbox. */
void terminal_resize(int master);
/* Every key goes to the program inside; terminal_restore() must follow, however we end. */
void terminal_raw(struct terminal *t);
/* Each key is read at once and not shown; keys that send signals still do. To be restored, too. */
void terminal_keys(struct terminal *t);
void terminal_restore(struct terminal *t);

/* Whether it is a terminal that moves its cursor: TERM is neither empty nor dumb. */
bool terminal_can_draw(int fd);

/* Asks on the terminal; true only if the answer begins with y. */
bool terminal_confirm(const char *question);
/* The same on another terminal, whose earlier input does not count. */
bool terminal_ask(int tty, const char *question);
/* Asks for one of several answers: the first character of the line in lower case, '\n' for an empty
 * one, and 0 if there is no answer: the terminal is gone, or a signal has a handler and arrived. A
 * signal that the caller blocks is delivered here, also an earlier one. */
char terminal_choose(const char *question);

#endif
