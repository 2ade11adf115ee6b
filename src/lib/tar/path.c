/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/path.h"

#include "base/log.h"

static int add_component(struct tree_path *p, struct str c, struct err *e)
{
    if (str_eq(c, STR("..")))
        return err_set(e, ERR_DENIED, "the path contains '..'");
    if (c.n > TREE_NAME_MAX)
        return err_set(e, ERR_TOO_BIG, "a name is longer than %d bytes", TREE_NAME_MAX);
    if (p->depth == TREE_DEPTH_MAX)
        return err_set(e, ERR_TOO_BIG, "the path has more than %d components", TREE_DEPTH_MAX);
    if (p->n + 1 + c.n + 1 > sizeof p->text)
        return err_set(e, ERR_TOO_BIG, "the path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (p->n > 0)
        p->text[p->n++] = '/';
    memcpy(p->text + p->n, c.p, c.n);
    p->name = p->n;
    p->n += c.n;
    p->depth++;
    return 0;
}

int tree_path(struct str raw, struct tree_path *ret, struct err *e)
{
    struct tree_path p;

    p.n = p.name = p.depth = 0;
    if (raw.n == 0)
        return err_set(e, ERR_INVALID, "the path is empty");
    if (memchr(raw.p, '\0', raw.n))
        return err_set(e, ERR_INVALID, "the path contains a NUL byte");
    while (raw.n > 0) {
        struct str component;
        int r;

        raw = str_cut(raw, '/', &component);
        if (component.n == 0 || str_eq(component, STR(".")))
            continue;
        r = add_component(&p, component, e);
        if (r < 0)
            return r;
    }
    p.text[p.n] = '\0';
    memcpy(ret->text, p.text, p.n + 1);
    ret->n = p.n;
    ret->name = p.name;
    ret->depth = p.depth;
    return 0;
}

const char *tree_path_name(const struct tree_path *p)
{
    return p->text + p->name;
}

void tree_path_parent(const struct tree_path *p, char out[static TREE_PATH_MAX])
{
    size_t n = p->name > 0 ? p->name - 1 : 0; /* without the slash */

    memcpy(out, p->text, n);
    if (n == 0)
        out[n++] = '.';
    out[n] = '\0';
}

void tree_path_show(struct str raw, char out[static TREE_SHOWN_MAX])
{
    log_printable(raw, out, TREE_SHOWN_MAX);
}
