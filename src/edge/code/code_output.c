/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/code_output.h"

#include "base/id.h"
#include "base/rfc3339.h"
#include "edge/code/message.h"
#include "lib/json/writer.h"

enum { LINE_BYTES = 8 << 20, PIECE_BYTES = 64 << 10, MARK_BYTES = 2 * ID_MAX };

#define MARK '\036'

void code_output_init(struct code_output *o, const char *id, bool raw)
{
    *o = (struct code_output){ .id = id, .raw = raw };
    buf_init(&o->json_lines, 4 * LINE_BYTES);
    buf_init(&o->line_[0], LINE_BYTES);
    buf_init(&o->line_[1], LINE_BYTES);
}

void code_output_done(struct code_output *o)
{
    buf_done(&o->json_lines);
    buf_done(&o->line_[0]);
    buf_done(&o->line_[1]);
}

static int add_text_event(struct code_output *o, int i, struct str text)
{
    struct json_writer w;
    char time[TIME_TEXT];

    if (!text.n || !o->begun_[i] || o->ended_[i])
        return 0;
    json_writer_init(&w, &o->json_lines, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "type", i ? "stderr" : "stdout");
    json_field_lossy(&w, "text", text);
    if (o->now_ns) {
        time_text(o->now_ns, time);
        json_field_text(&w, "timestamp", time);
    }
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) < 0 || buf_add_c(&o->json_lines, '\n') < 0)
        return -(int)ERR_TOO_BIG;
    return 0;
}

/* The rest of a line that begins with an execution id; p == NULL if it does not. */
static struct str text_after_id(struct str line, struct str *ret_id)
{
    size_t blank = str_find(line, ' ');

    *ret_id = (struct str){ line.p, blank };
    if (blank == line.n || !id_valid("run_", *ret_id))
        return (struct str){ NULL, 0 };
    return (struct str){ line.p + blank + 1, line.n - blank - 1 };
}

static int take_stdout_line(struct code_output *o, struct str line)
{
    struct str id, rest = o->amid_ ? (struct str){ NULL, 0 } : text_after_id(line, &id);

    o->amid_ = false;
    if (!rest.p) {
        if (line.p && line.n >= 2 && line.p[line.n - 2] == MARK)
            line.n -= 2;
        return o->raw ? add_text_event(o, 0, line) : 0;
    }
    if (!str_eq(id, str_from(o->id)))
        return 0;
    o->begun_[0] = true;
    if (str_eq(rest, STR("end\n")))
        o->ended_[0] = true;
    else if (message_is_object(rest) && buf_add(&o->json_lines, rest) < 0)
        return -(int)ERR_TOO_BIG;
    return 0;
}

/* Sends a long output line in pieces, unless it begins with an execution id. */
static int flush_long_line(struct code_output *o)
{
    struct buf *line = &o->line_[0];
    struct str id;
    int r;

    if (!o->raw || line->n < PIECE_BYTES || (!o->amid_ && text_after_id(buf_str(line), &id).p))
        return 0;
    r = add_text_event(o, 0, buf_str(line));
    buf_clear(line);
    o->amid_ = true;
    return r;
}

static int take_stdout(struct code_output *o, struct str data)
{
    int r = 0;

    while (r >= 0 && data.n && !o->ended_[0]) {
        size_t n = str_find(data, '\n');
        bool whole = n < data.n;

        n += whole;
        r = buf_add(&o->line_[0], (struct str){ data.p, n });
        data = (struct str){ data.p + n, data.n - n };
        if (r >= 0 && whole) {
            r = take_stdout_line(o, buf_str(&o->line_[0]));
            buf_clear(&o->line_[0]);
        } else if (r >= 0) {
            r = flush_long_line(o);
        }
    }
    return r < 0 ? -(int)ERR_TOO_BIG : 0;
}

/* Length of the mark at the start of `s`; 0 if more bytes are needed; SIZE_MAX if it is not a mark,
 * for example because another one begins first. */
static size_t mark_length(struct str s)
{
    size_t n = 1;

    while (n < s.n && n <= MARK_BYTES && s.p[n] != '\n' && s.p[n] != MARK)
        n++;
    if (n > MARK_BYTES || (n < s.n && s.p[n] == MARK))
        return SIZE_MAX;
    return n < s.n ? n + 1 : 0;
}

static void take_mark(struct code_output *o, struct str mark)
{
    if (mark.n < 3 || !str_eq((struct str){ mark.p + 2, mark.n - 3 }, str_from(o->id)))
        return;
    o->begun_[1] |= mark.p[1] == '+';
    o->ended_[1] |= mark.p[1] == '-';
}

static int take_stderr(struct code_output *o, struct str data)
{
    struct buf *line = &o->line_[1];
    int r = buf_add(line, data);

    while (r >= 0 && line->n) {
        struct str all = buf_str(line);
        size_t n = str_find(all, MARK), mark;

        r = add_text_event(o, 1, (struct str){ all.p, n });
        all = (struct str){ all.p + n, all.n - n };
        mark = all.n ? mark_length(all) : 0;
        if (mark == SIZE_MAX) {
            r = r < 0 ? r : add_text_event(o, 1, (struct str){ all.p, 1 });
            mark = 1;
        } else if (mark) {
            take_mark(o, (struct str){ all.p, mark });
        }
        buf_drop(line, n + mark);
        if (!mark)
            break;
    }
    return r < 0 ? -(int)ERR_TOO_BIG : 0;
}

bool code_output_begun(const struct code_output *o)
{
    return o->begun_[0];
}

int code_output_take(struct code_output *o, int channel, struct str data)
{
    int r = channel == 1 ? take_stdout(o, data) : o->raw ? take_stderr(o, data) : 0;

    if (r < 0)
        return r;
    return o->ended_[0] && (o->ended_[1] || !o->raw);
}
