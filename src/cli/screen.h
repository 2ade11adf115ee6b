/* SPDX-License-Identifier: Apache-2.0 */
/* The whole terminal, for a program that draws on it: the alternate screen, keys without echo, and
 * its signals as a descriptor. Every end of the program, except by SIGKILL, gives the terminal back as
 * it was. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <signal.h>

#include "cli/frame.h"
#include "cli/terminal.h"

struct screen {
    struct terminal terminal;
    sigset_t before;
    int signals; /* readable: call screen_signal() */
    bool open, all;
    struct frame shown;
};

/* stdin and stdout are a terminal that can be drawn on. */
bool screen_available(void);

int screen_open(struct screen *s, struct err *e);
void screen_close(struct screen *s);

/* Handles a signal: a stop, and what follows it, here. True: the screen has to be drawn again. A signal
 * that ends the program ends it, after the screen was closed. */
bool screen_signal(struct screen *s);
/* Gives the terminal back and stops this process, until it is continued. */
void screen_stop(struct screen *s);

/* Takes the frame. */
void screen_draw(struct screen *s, struct frame *f);

#endif
