/* SPDX-License-Identifier: Apache-2.0 */
/* The view of `top`: its rows and its selection, and the frame that shows them. Requests and keys are
 * those of verbs/top.c. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/answer.h"
#include "cli/frame.h"

enum { TOP_DENIALS_MAX = 64, TOP_ROWS_MAX = 100, TOP_ID_MAX = 64 };

enum top_pane { TOP_SANDBOXES, TOP_APPROVALS, TOP_PANES_ };
enum top_sort { TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_NAME, TOP_BY_AGE, TOP_SORTS_ };
extern const char *const top_sorts[TOP_SORTS_];

struct top_rows {
    struct json rows[TOP_ROWS_MAX]; /* shallow: their memory is that of an answer */
    size_t n;
    char selected[TOP_ID_MAX]; /* an id; "": none */
};

struct top_denial {
    struct arena arena;
    const struct json *event;
};

enum top_mode { TOP_TABLES, TOP_DETAILS, TOP_HELP, TOP_CONFIRM };

struct top {
    struct top_rows panes[TOP_PANES_];
    enum top_pane pane; /* that the keys are for */
    enum top_sort sort;
    enum top_mode mode;
    const struct json *details; /* TOP_DETAILS: of an approval, borrowed; NULL: the selected row */
    struct top_denial denials[TOP_DENIALS_MAX]; /* a ring */
    size_t n_denials;                           /* so far */
    char message[512];
};

void top_init(struct top *t);
void top_done(struct top *t);

/* Replaces the rows of a pane; they are borrowed until the next call has returned. A selection stays with its id.
 * Where the selected sandbox is gone, its neighbour is selected; where the selected approval is gone,
 * none is, and the keys are for sandboxes: a key that decides never meets another approval. */
void top_set_rows(struct top *t, enum top_pane pane, const struct json *rows);
void top_set_sort(struct top *t, enum top_sort sort);
/* An event of the stream, as JSON; other events than denials are ignored. True: it was one. */
bool top_add_denial(struct top *t, struct str event);

/* The selected row of the pane that the keys are for; NULL: none. */
const struct json *top_selected(const struct top *t);
void top_select(struct top *t, int by);
/* The other pane, if it has rows. */
void top_switch_pane(struct top *t);

/* f is initialised. */
void top_draw(const struct top *t, int64_t now, struct frame *f);

#endif
