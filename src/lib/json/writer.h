/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text, written value by value onto a buffer. Commas, quotes and escapes are the writer's job.
 *
 *     struct json_writer w;
 *
 *     json_writer_init(&w, &out, JSON_COMPACT);
 *     json_begin_object(&w);
 *     json_field_str(&w, "id", id);
 *     json_field_begin_array(&w, "sizes");
 *     json_put_int(&w, 3);
 *     json_end_array(&w);
 *     json_end_object(&w);
 *     r = json_writer_finish(&w, e);
 *
 * No call in between returns an error: after the first error all calls do nothing, and finish
 * returns that error. The writer refuses bytes that are not UTF-8 and doubles that are not finite
 * (-ERR_INVALID), text beyond the buffer's ceiling or deeper than JSON_DEPTH_MAX (-ERR_TOO_BIG),
 * and calls that do not make a document, such as a value without its key (-ERR_BUG). The caller
 * avoids duplicate keys. */
#ifndef LIB_JSON_WRITER_H
#define LIB_JSON_WRITER_H

#include "base/buf.h"
#include "base/err.h"
#include "lib/json/value.h"

enum json_style {
    JSON_COMPACT, /* one line, no blanks */
    JSON_PRETTY,  /* for people: a value a line, two blanks a level */
};

struct json_writer {
    struct buf *out; /* borrowed */
    enum json_style style;
    size_t from_; /* the length to which finish truncates after an error */
    struct err err_;
    unsigned depth_;
    unsigned char levels_[JSON_DEPTH_MAX + 1];
};

void json_writer_init(struct json_writer *w, struct buf *out, enum json_style style);

/* 0 if exactly one complete value was written; otherwise the first error, and the buffer is as it
 * was before init. Nothing to release either way. */
int json_writer_finish(struct json_writer *w, struct err *e);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, struct str key);

void json_put_null(struct json_writer *w);
void json_put_bool(struct json_writer *w, bool b);
void json_put_int(struct json_writer *w, int64_t i);
void json_put_uint(struct json_writer *w, uint64_t u);
void json_put_double(struct json_writer *w, double d); /* shortest text that reads back the same */
void json_put_str(struct json_writer *w, struct str s);
void json_put_tree(struct json_writer *w, const struct json *v);
/* A value that a compact writer has written before, as it is. */
void json_put_written(struct json_writer *w, struct str json);
/* How many bytes a string takes between its quotes. */
size_t json_text_size(struct str s);

/* Writes U+FFFD for each byte that is not UTF-8: for bytes that only inform people and may be cut
 * anywhere, such as error messages and the last words of a program. */
void json_put_lossy(struct json_writer *w, struct str s);

/* A member of an object: its key and its value in one call. The key is a terminated string, mostly
 * a literal; other keys are written with json_key(). The two `begin` calls open a value that
 * json_end_object() or json_end_array() closes. */
void json_field_null(struct json_writer *w, const char *key);
void json_field_bool(struct json_writer *w, const char *key, bool b);
void json_field_int(struct json_writer *w, const char *key, int64_t i);
void json_field_uint(struct json_writer *w, const char *key, uint64_t u);
void json_field_double(struct json_writer *w, const char *key, double d);
void json_field_str(struct json_writer *w, const char *key, struct str s);
void json_field_cstr(struct json_writer *w, const char *key, const char *s); /* NULL: "" */
void json_field_tree(struct json_writer *w, const char *key, const struct json *v);
void json_field_written(struct json_writer *w, const char *key, struct str json);
void json_field_begin_object(struct json_writer *w, const char *key);
void json_field_begin_array(struct json_writer *w, const char *key);
/* Strings that may hold bytes outside UTF-8, as json_put_lossy() writes them. */
void json_field_lossy(struct json_writer *w, const char *key, struct str s);
void json_field_text(struct json_writer *w, const char *key, const char *s); /* NULL: "" */
/* The same for a member that is omitted if its string is NULL or empty. */
void json_field_optional(struct json_writer *w, const char *key, const char *s);

/* For code that writes onto a writer it was given: the error sticks unless there is one already. */
void json_writer_fail(struct json_writer *w, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
