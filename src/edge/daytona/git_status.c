#include "api/daytona/git_status.h"

struct branch {
    struct str head, upstream;
    int64_t ahead, behind;
};

static void put(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, value);
}

static void put_number(struct json_writer *w, const char *key, int64_t n)
{
    json_key(w, str_from(key));
    json_put_int(w, n);
}

static void put_flag(struct json_writer *w, const char *key, bool value)
{
    json_key(w, str_from(key));
    json_put_bool(w, value);
}

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

static void read_head(struct str line, struct branch *b)
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

/* How many fields stand before the path, by the record's kind; 0: it has none. */
static unsigned fields_before(char kind)
{
    return kind == '1' ? 8 : kind == '2' ? 9 : kind == 'u' ? 10 : kind == '?' ? 1 : 0;
}

static void write_file(struct json_writer *w, struct str name, const char letters[2],
                       struct str extra)
{
    json_begin_object(w);
    put(w, "name", name);
    put(w, "staging", str_from(word_of(letters[0])));
    put(w, "worktree", str_from(word_of(letters[1])));
    put(w, "extra", extra);
    json_end_object(w);
}

/* One record; where a file was renamed from is a record of its own behind it. */
static void write_record(struct json_writer *w, struct str record, struct str *rest)
{
    char kind = record.n ? record.p[0] : '\0', letters[2] = { '?', '?' };
    struct str field, extra = STR("");
    unsigned n = fields_before(kind);

    if (!n)
        return;
    for (unsigned i = 0; i < n; i++) {
        record = str_cut(record, ' ', &field);
        if (i == 1 && field.n == 2)
            memcpy(letters, field.p, 2);
    }
    if (kind == '2')
        *rest = str_cut(*rest, '\0', &extra);
    if (record.n)
        write_file(w, record, letters, extra);
}

static void write_branch(struct json_writer *w, const struct branch *b)
{
    put(w, "currentBranch", b->head.n ? b->head : STR(""));
    put_flag(w, "detached", str_eq(b->head, STR("(detached)")));
    put_flag(w, "branchPublished", b->upstream.n > 0);
    if (b->upstream.n)
        put(w, "upstream", b->upstream);
    put_number(w, "ahead", b->ahead);
    put_number(w, "behind", b->behind);
}

void git_status_write(struct json_writer *w, struct str text)
{
    struct branch b = { 0 };
    struct str rest = text, record;

    json_begin_object(w);
    json_key(w, STR("fileStatus"));
    json_begin_array(w);
    while (rest.n) {
        rest = str_cut(rest, '\0', &record);
        if (record.n && record.p[0] == '#')
            read_head(record, &b);
        else
            write_record(w, record, &rest);
    }
    json_end_array(w);
    write_branch(w, &b);
    json_end_object(w);
}
