/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/built.h"
#include "edge/e2b/internal.h"

#include <stdio.h>
#include <strings.h>

#include "edge/core/bind_known.h"
#include "edge/core/file_take.h"
#include "lib/crypto/encode.h"

enum { PATH_BYTES_MAX = 4095 };

int e2b_bind(struct call *c, const struct json *v, const struct json_field *fields, size_t n,
             void *out, struct err *e)
{
    return bind_known(v, fields, n, out, &c->arena, e);
}

bool e2b_read_body(struct call *c, const struct json_field *fields, size_t n, void *out)
{
    struct err e;

    if (e2b_bind(c, c->json, fields, n, out, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

static const char *good_user(struct call *c, struct str user)
{
    const char *name = user.n && user.n <= E2B_USER_MAX && !memchr(user.p, 0, user.n)
                           ? arena_dup(&c->own, user)
                           : NULL;

    if (!name)
        rpc_fail(c, 401, "the username is empty or longer than 64 bytes");
    return name;
}

/* The default user: the template's, or "user". */
static const char *usual_user(struct call *c)
{
    const struct built *b = built_of_sandbox(c);

    return b && b->user[0] ? arena_dup(&c->own, str_from(b->user)) : "user";
}

const char *e2b_workdir(struct call *c)
{
    const struct built *b = built_of_sandbox(c);

    return b && b->workdir[0] ? arena_dup(&c->own, str_from(b->workdir)) : NULL;
}

/* Clients send the user's name as Basic authentication without a password. */
const char *e2b_rpc_user(struct call *c)
{
    struct str given = call_header(c, "Authorization"), user;
    struct buf text AUTO(buf_done) = BUF_INIT(4 * E2B_USER_MAX);

    if (given.n < 6 || strncasecmp(given.p, "Basic ", 6) != 0)
        return usual_user(c);
    if (crypto_unbase64((struct str){ given.p + 6, given.n - 6 }, &text, NULL) < 0) {
        rpc_fail(c, 401, "Authorization: not valid base64");
        return NULL;
    }
    str_cut(buf_str(&text), ':', &user);
    return good_user(c, user);
}

const char *e2b_file_user(struct call *c)
{
    struct str user;
    int r = call_query(c, "username", &user);

    if (r < 0)
        return NULL;
    return r && user.n ? good_user(c, user) : usual_user(c);
}

/* --- homes --- */

/* The conventional home directory, for sandboxes whose PID 1 cannot be queried. */
static const char *usual_home(struct call *c, const char *user)
{
    char text[E2B_USER_MAX + 8];

    if (strcmp(user, "root") == 0 || strcmp(user, "0") == 0)
        return "/root";
    snprintf(text, sizeof text, "/home/%s", user);
    return arena_dup(&c->own, str_from(text));
}

/* The state of a call whose paths may be relative. */
struct home_search {
    struct file_take take;
    const char *user, *no_paths[1];
    const char *home; /* of the user inside; NULL: not found yet */
};

const char *e2b_home(struct call *c, const char *user)
{
    const struct home_search *k = c->dialect_state;

    return k && k->home ? k->home : usual_home(c, user);
}

static void on_home_found(struct file_take *t, const struct err *e)
{
    struct home_search *k = container_of(t, struct home_search, take);
    struct call *c = t->call;
    struct str home = buf_str(&t->data);

    if (!e)
        k->home = home.n && home.p[0] == '/' ? arena_dup(&c->own, home) : "/";
    else if (e->code == ERR_UNSUPPORTED)
        k->home = usual_home(c, k->user);
    if (c->x && k->home)
        c->route->handle(c);
    else if (c->x)
        call_fail(c, e);
}

bool e2b_ensure_home(struct call *c, const char *user, struct str path)
{
    struct home_search *k = c->dialect_state;

    if ((k && k->home) || (path.n && path.p[0] == '/'))
        return true;
    k = call_alloc(c, 1, sizeof *k);
    k->user = user;
    c->dialect_state = k;
    file_take_start(&k->take, c, START_HOME, k->no_paths, user, 0, on_home_found);
    return false;
}

const char *e2b_absolute(struct call *c, const char *user, struct str path)
{
    struct buf text AUTO(buf_done) = BUF_INIT(PATH_BYTES_MAX + 1);
    const char *ret = NULL;
    int r = 0;

    if (!path.n || path.p[0] != '/') {
        r = buf_add(&text, str_from(e2b_home(c, user)));
        if (path.n && path.p[0] == '~' && (path.n == 1 || path.p[1] == '/'))
            path = (struct str){ path.p + 1, path.n - 1 };
        if (r >= 0 && path.n && path.p[0] != '/')
            r = buf_add_c(&text, '/');
    }
    if (r >= 0 && (!path.n || !memchr(path.p, 0, path.n)))
        r = buf_add(&text, path);
    else
        r = -1;
    while (text.n > 1 && text.p[text.n - 1] == '/')
        text.n--;
    if (r >= 0)
        ret = arena_dup(&c->own, buf_str(&text));
    return ret;
}

const char *e2b_path(struct call *c, const char *user, struct str path)
{
    const char *ret = e2b_absolute(c, user, path);

    if (!ret)
        rpc_fail(c, 400, "path: longer than 4095 bytes or contains NUL");
    return ret;
}
