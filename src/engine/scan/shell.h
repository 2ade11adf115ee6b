/* SPDX-License-Identifier: Apache-2.0 */
/* State of the scanner for shell text, shared by shell*.c. */
#ifndef ENGINE_SCAN_SHELL_H
#define ENGINE_SCAN_SHELL_H

#include "base/buf.h"
#include "engine/scan/internal.h"

enum { WORDS_MAX = 1 << 20, VALUE_MAX = 256, VARIABLES = 256, HEREDOCS_MAX = 8, NAME_MAX_ = 64 };

struct shell_variable {
    char name[NAME_MAX_];
    char value[VALUE_MAX]; /* "" if it is not known */
};

struct heredoc {
    char end[NAME_MAX_];
    bool tabs; /* <<-: leading tabs do not count */
    bool ours; /* its command has ended, and reads … */
    enum scan_language language;
};

struct shell {
    struct scan_state *s;
    struct str t;
    size_t at, line_from;
    uint32_t line;
    struct buf words; /* bytes of the words of all commands that are open */
    struct shell_variable variables[VARIABLES];
    size_t n_variables;
    struct heredoc heredocs[HEREDOCS_MAX];
    size_t n_heredocs;
    char function[NAME_MAX_]; /* whose body we are in, or "" */
    unsigned loops;           /* loops without end that are open … */
    bool calm;                /* … and something waits in them */
    unsigned inner;           /* other loops in them */
    unsigned depth;
};

struct shell_word {
    size_t from, n; /* in words */
    flows in;
    bool quoted;     /* some of it */
    bool expanded;   /* holds a substitution */
    unsigned pieces; /* ${x:1:2} */
};

/* A command while it is read. */
struct shell_command {
    struct shell_word words[SCAN_ARGS_MAX];
    size_t n;
    size_t mark; /* where its words begin */
    flows in;
    struct scan_place at;
    char target[VALUE_MAX]; /* of an output redirection */
    flows group;            /* the flows of the output of this list so far */
    char before[NAME_MAX_]; /* the command before in this pipeline */
};

static inline struct scan_place shell_place(const struct shell *sh)
{
    if (sh->s->fixed)
        return *sh->s->fixed;
    return (struct scan_place){ sh->line, (uint32_t)(sh->at - sh->line_from + 1) };
}

static inline char shell_peek(const struct shell *sh, size_t ahead)
{
    return sh->at + ahead < sh->t.n ? sh->t.p[sh->at + ahead] : '\0';
}

static inline bool shell_at_end(const struct shell *sh)
{
    return sh->at >= sh->t.n;
}

static inline void shell_step(struct shell *sh)
{
    if (sh->t.p[sh->at++] == '\n') {
        sh->line++;
        sh->line_from = sh->at;
    }
}

static inline bool shell_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* --- shell_words.c: words come without their quotes, as a shell would see them --- */
struct shell_word shell_read_word(struct shell *sh, char until);
struct str shell_text(const struct shell *sh,
                      const struct shell_word *w); /* until more words are read */
void shell_add(struct shell *sh, struct str s);
/* A list in a word: its output is part of the word. */
void shell_read_substitution(struct shell *sh, struct shell_word *w, size_t opening, char until);
void shell_skip_arithmetic(struct shell *sh);
void shell_assign(struct shell *sh, struct str name, struct str value, flows in);

/* --- shell_command.c: the meaning, the effects and the output of a command --- */
void shell_add_word(struct shell *sh, struct shell_command *c, struct shell_word w);
/* The index of the word that names the command, with assignments before it made. */
size_t shell_find_name(struct shell *sh, const struct shell_command *c);
flows shell_judge(struct shell *sh, struct shell_command *c);
void shell_judge_target(struct shell *sh, const struct shell_command *c, flows in, bool endless);
struct str shell_base_name(struct str path);
bool shell_is_option_or_number(struct str w);

/* --- shell.c --- */
/* Up to the end, or the byte that ends the substitution we are in. */
flows shell_read_list(struct shell *sh, char until);

#endif
