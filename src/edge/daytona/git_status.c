/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/git_status.h"

struct branch {
    struct str head, upstream;
    int64_t ahead, behind;
};

static const char *word_of(char letter)
{
    switch (letter) {
    case '?':
        return "Untracked";
    case 'M':
    case 'T':
        return "Modified";
    case 'A':
        return "Added";
    case 'D':
        return "Deleted";
    case 'R':
        return "Renamed";
    case 'C':
        return "Copied";
    case 'U':
        return "Updated but unmerged";
    default:
        return "Unmodified";
    }
}

/* "+1 -2" */
static void read_distance(struct str text, struct branch *b)
{
    struct str ahead, behind = str_cut(text, ' ', &ahead);

    if (ahead.n < 2 || behind.n < 2)
        return;
    (void)str_to_i64((struct str){ ahead.p + 1, ahead.n - 1 }, &b->ahead);
    (void)str_to_i64((struct str){ behind.p + 1, behind.n - 1 }, &b->behind);
}

static void read_branch_header(struct str line, struct branch *b)
{
    struct str key, value;

    line = str_cut(line, ' ', &key); /* "#" */
    value = str_cut(line, ' ', &key);
    if (str_eq(key, STR("branch.head")))
        b->head = value;
    else if (str_eq(key, STR("branch.upstream")))
        b->upstream = value;
    else if (str_eq(key, STR("branch.ab")))
        read_distance(value, b);
}

/* Writes a record. The old name of a renamed file follows as a record of its own. */
static void write_git_record(struct json_writer *w, struct str record, struct str *rest)
{
    char kind = record.n ? record.p[0] : '\0', letters[2] = { '?', '?' };
    struct str field, extra = STR("");
    /* fields before the path; 0: a record without one */
    unsigned n = kind == '1' ? 8 : kind == '2' ? 9 : kind == 'u' ? 10 : kind == '?' ? 1 : 0;

    if (!n)
        return;
    for (unsigned i = 0; i < n; i++) {
        record = str_cut(record, ' ', &field);
        if (i == 1 && field.n == 2)
            memcpy(letters, field.p, 2);
    }
    if (kind == '2')
        *rest = str_cut(*rest, '\0', &extra);
    if (!record.n)
        return;
    json_begin_object(w);
    json_field_lossy(w, "name", record);
    json_field_text(w, "staging", word_of(letters[0]));
    json_field_text(w, "worktree", word_of(letters[1]));
    json_field_lossy(w, "extra", extra);
    json_end_object(w);
}

void git_status_write(struct json_writer *w, struct str text)
{
    struct branch b = { 0 };
    struct str rest = text, record;

    json_begin_object(w);
    json_field_begin_array(w, "fileStatus");
    while (rest.n) {
        rest = str_cut(rest, '\0', &record);
        if (record.n && record.p[0] == '#')
            read_branch_header(record, &b);
        else
            write_git_record(w, record, &rest);
    }
    json_end_array(w);
    json_field_lossy(w, "currentBranch", b.head.n ? b.head : STR(""));
    json_field_bool(w, "detached", str_eq(b.head, STR("(detached)")));
    json_field_bool(w, "branchPublished", b.upstream.n > 0);
    if (b.upstream.n)
        json_field_lossy(w, "upstream", b.upstream);
    json_field_int(w, "ahead", b.ahead);
    json_field_int(w, "behind", b.behind);
    json_end_object(w);
}
