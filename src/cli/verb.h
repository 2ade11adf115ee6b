/* SPDX-License-Identifier: Apache-2.0 */
/* A verb of the command line. Its file in verbs/ has the first word of its name ("egress check" is
 * in verbs/egress.c, "reap-stale" in verbs/reap_stale.c), and it has an entry in verbs/verbs.h.
 * Parsing, requests, --help, manual pages and shell completion all come from these tables. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/status.h"

/* The kind of values that a shell completes. */
enum complete {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_SANDBOX, /* ids and names of sandboxes, as `list --names` prints them */
    COMPLETE_PROFILE,
    COMPLETE_HOST,
    COMPLETE_IMAGE,
    COMPLETE_TOKEN,
    COMPLETE_APPROVAL,
    COMPLETE_SNAPSHOT,
    COMPLETE_VERB,
    COMPLETE_SANDBOX_OR_FILE, /* cp */
};

/* How a value is checked and what the member at `at` is. */
enum option_kind {
    OPTION_IMPLIED,   /* by the row: one of the next four, see option_kind() */
    OPTION_CALL,      /* calls `set`, which the row has */
    OPTION_FLAG,      /* bool, of a row without the name of a value */
    OPTION_TEXT,      /* const char *, not empty */
    OPTION_WORD,      /* const char *, one of `words` */
    OPTION_DURATION,  /* const char *: 30s, 2h, 1h30m; a bare number, of seconds, gets its unit */
    OPTION_COUNT,     /* const char *: a whole number from `least` to `most` */
    OPTION_LIST,      /* struct option_list, of any texts or of `words` */
    OPTION_PAIRS,     /* struct option_list of NAME=VALUE */
    OPTION_VARIABLES, /* the same; NAME alone passes on our own variable, if it is set */
};

/* One option. */
struct option_spec {
    const char *name;  /* without the dashes */
    char letter;       /* 0: none */
    const char *value; /* name of the value in the help; NULL: takes no value */
    const char *help;  /* NULL: hidden from help, manual and completion */
    /* OPTION_CALL: stores the value (NULL for a flag) in the member at `at`, which by default is the
     * verb's whole options struct. */
    int (*set)(void *member, const char *value, struct err *e);
    enum option_kind kind;
    enum complete complete;
    size_t at;            /* offset in the verb's options struct */
    const char *words;    /* OPTION_WORD, OPTION_LIST: allowed values, separated by blanks */
    uint64_t least, most; /* OPTION_COUNT; most 0: no limit */
    /* Where the request of the verb (verb.request) carries the value; NULL: nowhere. */
    const char *query;  /* a query parameter; a flag is "true" */
    const char *member; /* a member of the JSON body */
};

enum option_kind option_kind(const struct option_spec *o); /* never OPTION_IMPLIED */

/* With a unit: "5" becomes "5s", as it is in the configuration. It lives as long as we do. */
const char *option_duration(const char *value);

/* Resolves NAME=VALUE, or NAME alone from our own environment: *ret, valid for the life of the
 * process; NULL: the variable is not set. */
int option_variable(const char *option, const char *value, const char **ret, struct err *e);

enum { OPTION_LIST_MAX = 256 };

struct option_list {
    const char *p[OPTION_LIST_MAX];
    size_t n;
};

enum verb_flags {
    VERB_REMOTE = 1 << 0, /* asks the daemon: takes --server */
    VERB_FORMAT = 1 << 1, /* takes -o */
    VERB_QUIET = 1 << 2,  /* takes -q */
    VERB_ASKS = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    VERB_COMMAND = 1 << 3, /* ends with a program's exit status: options end at the first argument,
                              and what is wrong with them is EXIT_TOOL_FAILED, not EXIT_USAGE */
    VERB_DASHES = 1 << 4,  /* "--" is an argument, too: a command may follow it */
};

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_YAML };

/* The options struct of a verb with one of the first three flags begins with this. */
struct common {
    const char *server;
    const char *format; /* a word of its option, or NULL */
    bool quiet;
};

enum format common_format(const struct common *c);

enum { ARGUMENTS_ANY = 1 << 20 };

struct api_call;
struct verb_request;

struct verb {
    const char *name;    /* "create"; "profiles list" has two words */
    const char *aliases; /* other spellings, separated by commas: "images,image ls"; NULL: none */
    /* ARGUMENTS(): */
    const char *arguments; /* "[--] COMMAND [ARGUMENT…]"; NULL: none */
    struct {
        int least, most;
    } n_arguments;
    enum complete complete;
    const char *summary; /* one line */
    /* Text below the options in --help: paragraphs, one of which may begin with "Exit status:".
     * Lines that begin with blanks are commands; those at the end are the examples. */
    const char *text;
    /* OPTIONS(): */
    const struct option_spec *options;
    size_t n_options;
    size_t options_size;  /* of the struct for their values; 0: a struct common */
    const void *defaults; /* such a struct; NULL: all zero */
    /* Either what it does with its options and arguments (ended by NULL): the exit status. `c` is a
     * GET request that has no path yet … */
    int (*run)(struct api_call *c, void *options, int argc, char **argv);
    const struct verb_request *request; /* … or the one request that it is (cli/request.h) */
    unsigned flags;                     /* enum verb_flags */
};
#define ARGUMENTS(text, least, most, what)                                                         \
    .arguments = (text), .n_arguments = { least, most }, .complete = (what)
#define OPTIONS(table, type)                                                                       \
    .options = (table), .n_options = COUNT_OF(table), .options_size = sizeof(type)

/* All verbs, in the order of the help; ended by NULL. */
extern const struct verb *const cli_verbs[];

/* Its i-th spelling: the name, then the aliases; p is NULL behind the last. */
struct str verb_spelling(const struct verb *v, size_t i);

/* The verb at the front of the words, by its name or an alias, and the number of words in its name; NULL if no verb
 * matches. */
const struct verb *verb_find(int argc, char **argv, int *ret_words);

/* Its i-th option that is not hidden: its own, then those of its flags, then --help; NULL behind the
 * last. */
const struct option_spec *verb_option(const struct verb *v, size_t i);

/* Reads options up to "--" or, with VERB_COMMAND, up to the first argument; otherwise arguments may
 * come before options. Checks the number of arguments. True: argv are the arguments alone and
 * *ret_status is 0. False: *ret_status is the exit status, after a message or the help. */
bool verb_parse(const struct verb *v, int *argc, char ***argv, void *options, int *ret_status);

/* Prints a usage error with the verb's name in front, and returns its exit status. */
int verb_misused(const struct verb *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failure of this process: EXIT_TOOL_FAILED. */
int verb_failed(const struct verb *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void verb_print_help(const struct verb *v);

/* "sandboxer: …" on stderr, free of anything a terminal could act on. */
void cli_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

int cli_main(int argc, char **argv);

#endif
