/* A verb of the command line: one file each, one row in the table of cli.c. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Exit statuses beside a program's own, as in the shell and its relatives. */
enum {
    EXIT_TIMED_OUT = 124,
    EXIT_OURS = 125, /* we failed, not the program */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNALLED = 128, /* plus the signal's number */
};

/* One option. `set` stores the value (NULL for a flag) in the verb's own options struct. */
struct option_spec {
    const char *name;  /* without the dashes */
    char letter;       /* 0: none */
    const char *value; /* what to call the value in the help; NULL: takes none */
    const char *help;
    int (*set)(void *options, const char *value, struct err *e);
};

struct verb {
    const char *name;
    const char *arguments; /* "[--] COMMAND [ARGUMENT…]" */
    const char *summary;   /* one line */
    const char *text;      /* what --help says below the options */
    const struct option_spec *options;
    size_t n_options;
    int (*run)(const struct verb *v, int argc, char **argv); /* argv[0] is the verb; exit status */
};

extern const struct verb verb_run;
extern const struct verb verb_canary;

/* Reads options up to "--" or the first argument that is none. Returns the index of the first
 * argument behind them, -1 after printing what is wrong, or 0 after printing the help. */
int verb_options(const struct verb *v, int argc, char **argv, void *options);

/* "sandboxer: …" on stderr, free of anything a terminal could act on. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

int cli_main(int argc, char **argv);

#endif
