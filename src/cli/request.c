/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/archive.h"
#include "cli/body.h"
#include "cli/text_file.h"

/* --- the request line: arguments and options --- */

/* Returns the arguments behind those that are in the path. */
static char **write_request_path(struct api_call *c, const char *path, char **argv)
{
    struct str rest = str_from(path), piece;

    while (rest.p) {
        rest = str_cut(rest, '%', &piece);
        buf_add(&c->target, piece);
        if (!rest.p)
            break;
        api_call_path(c, "%s", *argv++);
        rest = (struct str){ rest.p + 1, rest.n - 1 }; /* behind the 's' */
    }
    return argv;
}

static void write_option_query(struct api_call *c, const struct option_spec *o, const void *member)
{
    const struct option_list *list = member;

    switch (option_kind(o)) {
    case OPTION_FLAG:
        api_call_query(c, o->query, *(const bool *)member ? "true" : NULL);
        break;
    case OPTION_LIST:
    case OPTION_PAIRS:
        for (size_t i = 0; i < list->n; i++)
            api_call_query(c, o->query, list->p[i]);
        break;
    default:
        api_call_query(c, o->query, *(const char *const *)member);
    }
}

static void write_option_member(struct json_writer *w, const struct option_spec *o,
                                const void *member)
{
    uint64_t n;

    switch (option_kind(o)) {
    case OPTION_FLAG:
        body_flag(w, o->member, *(const bool *)member);
        break;
    case OPTION_LIST:
        body_list(w, o->member, member);
        break;
    case OPTION_PAIRS:
    case OPTION_VARIABLES:
        body_pairs(w, o->member, member);
        break;
    case OPTION_COUNT:
        if (str_to_u64(str_from(*(const char *const *)member), &n)) /* or it was not given */
            json_field_uint(w, o->member, n);
        break;
    default:
        body_text(w, o->member, *(const char *const *)member);
    }
}

/* --- bodies that are files --- */

struct body_file {
    struct archive archive;
    int fd;
};
#define BODY_FILE_NONE ((struct body_file){ ARCHIVE_NONE, -1 })

static void body_file_done(struct body_file *f)
{
    archive_done(&f->archive);
    drop_fd(&f->fd);
}

/* An http_client_more_fn. */
static int read_file_piece(void *user, char *out, size_t cap, struct err *e)
{
    const int *fd = user;
    ssize_t n;

    do
        n = read(*fd, out, cap);
    while (n < 0 && errno == EINTR);
    return n < 0 ? err_sys(e, "reading the file") : (int)n;
}

static int open_body_file(struct api_call *c, struct body_file *f, const char *path, struct err *e)
{
    f->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                   : open(path, O_RDONLY | O_CLOEXEC);
    c->more = read_file_piece;
    c->more_user = &f->fd;
    return f->fd < 0 ? err_sys(e, "%s", path) : 0;
}

static int attach_body_file(struct api_call *c, struct body_file *f, const char *path)
{
    static const char *const types[] = { [BODY_YAML] = "application/yaml",
                                         [BODY_ZSTD] = "application/zstd",
                                         [BODY_TAR] = "application/x-tar" };
    enum request_body body = c->verb->request->body;
    struct err e;
    int r = body == BODY_YAML   ? text_file_read(path, &c->body, &e)
            : body == BODY_ZSTD ? open_body_file(c, f, path, &e)
                                : archive_open(&f->archive, path, &e);

    if (r < 0)
        return api_call_failed(c, &e);
    if (body == BODY_TAR) {
        c->more = archive_more;
        c->more_user = &f->archive;
    }
    api_call_field(c, "Content-Type", types[body]);
    return 0;
}

/* --- the whole --- */

static int write_request(struct api_call *c, void *options, char **argv)
{
    const struct verb_request *q = c->verb->request;
    int status = 0;

    if (q->body == BODY_JSON)
        json_begin_object(api_call_json(c));
    if (q->prepare)
        status = q->prepare(c, options, argv);
    if (status)
        return status;
    argv = write_request_path(c, q->path, argv);
    if (q->query && *argv)
        api_call_query(c, q->query, *argv++);
    for (size_t i = 0; i < COUNT_OF(q->members) && q->members[i] && *argv; i++)
        body_text(&c->json, q->members[i], *argv++);
    for (size_t i = 0; i < c->verb->n_options; i++) {
        const struct option_spec *o = &c->verb->options[i];
        const void *member = (const char *)options + o->at;

        if (o->query)
            write_option_query(c, o, member);
        if (o->member)
            write_option_member(&c->json, o, member);
    }
    if (q->body == BODY_JSON)
        json_end_object(&c->json);
    c->doing = q->doing;
    c->lines = q->lines;
    return 0;
}

static int print_request_answer(const struct api_call *c, const void *options, char **argv)
{
    const struct verb_request *q = c->verb->request;

    if (q->print && common_format(c->common) == FORMAT_TEXT)
        return q->print(c, options, argv);
    if (!q->kind)
        return answer_done(c, c->answer, "%s %s", argv[0], q->done ? q->done : "");
    return (q->list ? answer_list : answer_record)(c, c->answer, q->kind);
}

static int perform_request(struct api_call *c, const void *options, char **argv)
{
    const struct verb_request *q = c->verb->request;
    int status;

    if (q->stream)
        return answer_stream(c, STR(""), answer_print_row, q->kind);
    status = api_call_run(c);
    if (status == 0)
        status = print_request_answer(c, options, argv);
    return status == 0 && q->finish ? q->finish(c, argv) : status;
}

int request_run(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(body_file_done) struct body_file file = BODY_FILE_NONE;
    int status = 0;

    c->method = c->verb->request->method;
    if (c->verb->request->body > BODY_JSON)
        status = attach_body_file(c, &file, argv[argc - 1]);
    if (status == 0)
        status = write_request(c, options, argv);
    return status ? status : perform_request(c, options, argv);
}

/* --- printers that several verbs share --- */

int request_print_verified(const struct api_call *c, const void *options, char **argv)
{
    unsigned long long all = show_count(c->answer, "layers"),
                       first = show_count(c->answer, "first_time");
    char also[80] = "";

    if (first == all)
        return answer_done(c, c->answer, "%s: %llu layer%s hashed for the first time", argv[0], all,
                           all == 1 ? "" : "s");
    if (first)
        snprintf(also, sizeof also, "; %llu hashed for the first time", first);
    return answer_done(c, c->answer, "%s: %llu layer%s verified, unchanged%s", argv[0], all,
                       all == 1 ? "" : "s", also);
}

int request_print_validated(const struct api_call *c, const void *options, char **argv)
{
    const struct verb_request *q = c->verb->request;

    if (show_true(c->answer, "valid"))
        return answer_done(c, c->answer, "%s is valid", argv[0]);
    return (q->list ? answer_list : answer_record)(c, c->answer, q->kind);
}

int request_finish_validated(const struct api_call *c, char **argv)
{
    return show_true(c->answer, "valid") ? 0 : EXIT_REPORTED;
}
