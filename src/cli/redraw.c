/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/redraw.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/terminal.h"

enum { OTHER_LINES = 3 }; /* the titles, the count, and the cursor's */

bool redraw_available(const struct common *c)
{
    return common_format(c) == FORMAT_TEXT && terminal_can_draw(STDOUT_FILENO);
}

/* The number of rows that the terminal has room for. */
static size_t rows_on_terminal(void)
{
    struct winsize size = { 0 };

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row)
        return SIZE_MAX;
    return size.ws_row > OTHER_LINES ? size.ws_row - (size_t)OTHER_LINES : 1;
}

int redraw_table(const struct api_call *c, const struct json *tree, const struct answer_kind *k)
{
    const struct json *rows = answer_rows(tree, k);
    struct json shown = *rows;
    size_t most = rows_on_terminal(), n = rows->type == JSON_ARRAY ? rows->list.n : 0;
    int status;

    if (n > most)
        shown.list.n = most;
    fputs("\033[H\033[J", stdout); /* together with the table, in one write where it fits */
    status = answer_list(c, &shown, k);
    if (status || n <= most)
        return status;
    printf("… and %zu more\n", n - most);
    return answer_flush(c);
}
