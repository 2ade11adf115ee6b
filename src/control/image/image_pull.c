/* From a registry: the manifest that a name leads to, the configuration that it names, then the
 * layers. Each document is what its digest says, but for the first one that a tag leads to. */
#include <stdio.h>

#include "control/images_inside.h"

enum { INDEXES_MAX = 2, MANIFEST = sizeof "manifests/" - 1, BLOB = sizeof "blobs/" - 1 };

static int check_document(const char *wanted, struct str text, char ret[static OCI_DIGEST_MAX],
                          struct err *e)
{
    image_digest(text, ret);
    if (!wanted[0] || strcmp(wanted, ret) == 0)
        return 0;
    return err_set(e, ERR_UPSTREAM, "the registry sent a document %.19s… for %.19s…", ret, wanted);
}

static void get(struct making *m, const char *what, const char *accept, registry_done_fn *done)
{
    m->get = (struct registry_get){
        .registry = &m->registry, .accept = accept, .max_body = OCI_DOCUMENT_MAX, .done = done
    };
    snprintf(m->get.what, sizeof m->get.what, "%s", what);
    registry_start(&m->get);
}

/* --- the configuration --- */

static int place_parts(struct making *m, struct err *e)
{
    int r = making_plan(m, e);

    if (r < 0)
        return r;
    if (m->n != m->manifest.n)
        return err_set(e, ERR_INVALID, "the image has %zu layers, but its configuration %zu",
                       m->manifest.n, m->n);
    for (size_t i = 0; i < m->n; i++) {
        snprintf(m->parts[i].digest, sizeof m->parts[i].digest, "%s", m->manifest.layers[i].digest);
        m->parts[i].size = m->manifest.layers[i].size;
    }
    return 0;
}

static void on_config(struct registry_get *g, int r, const struct err *e,
                      const struct fetch_answer *a)
{
    struct making *m = container_of(g, struct making, get);
    char digest[OCI_DIGEST_MAX];
    struct err bad;

    if (r < 0) {
        making_fail(m, e);
        return;
    }
    r = check_document(m->manifest.config.digest, a->body, digest, &bad);
    if (r >= 0)
        r = making_set_config(m, a->body, &bad);
    if (r >= 0)
        r = place_parts(m, &bad);
    if (r < 0)
        making_fail(m, &bad);
    else
        making_go(m);
}

/* --- manifests --- */

static void ask_manifest(struct making *m, const char *name);

static int follow_index(struct making *m, struct str text, struct err *e)
{
    const struct oci_descriptor *found;
    struct oci_index x;
    int r = oci_index_read(text, &m->arena, &x, e);

    if (r < 0)
        return r;
    found = oci_index_choose(&x, &m->platform);
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "%s is not there for %s/%s%s%s", m->ref, m->platform.os,
                       m->platform.architecture, m->platform.variant ? "/" : "",
                       m->platform.variant ? m->platform.variant : "");
    if (++m->indexes > INDEXES_MAX)
        return err_set(e, ERR_INVALID, "the image's index leads to more than %d others",
                       INDEXES_MAX);
    ask_manifest(m, found->digest);
    return 0;
}

static int take_manifest(struct making *m, struct str text, struct err *e)
{
    char what[sizeof m->get.what];
    enum oci_document kind;
    int r = oci_document_kind(text, &m->arena, &kind, e);

    if (r >= 0 && kind == OCI_INDEX)
        return follow_index(m, text, e);
    if (r >= 0)
        r = oci_manifest_read(text, &m->arena, &m->manifest, e);
    if (r < 0)
        return r;
    snprintf(what, sizeof what, "blobs/%s", m->manifest.config.digest);
    get(m, what, NULL, on_config);
    return 0;
}

static void on_manifest(struct registry_get *g, int r, const struct err *e,
                        const struct fetch_answer *a)
{
    struct making *m = container_of(g, struct making, get);
    const char *asked = g->what + MANIFEST;
    AUTO(buf_done) struct buf text = BUF_INIT(OCI_DOCUMENT_MAX);
    struct err bad;

    if (r < 0) {
        making_fail(m, e);
        return;
    }
    r = check_document(oci_digest_valid(str_from(asked)) ? asked : "", a->body, m->digest, &bad);
    if (r >= 0 && buf_add(&text, a->body) < 0) /* the answer is gone when the next is asked for */
        r = err_set(&bad, ERR_TOO_BIG, "the image's manifest is too large");
    if (r >= 0)
        r = take_manifest(m, buf_str(&text), &bad);
    if (r < 0)
        making_fail(m, &bad);
}

static void ask_manifest(struct making *m, const char *name)
{
    char what[sizeof m->get.what];

    snprintf(what, sizeof what, "manifests/%s", name);
    making_tell(m, "manifest", 0, 0);
    get(m, what, OCI_ACCEPT, on_manifest);
}

/* --- the start --- */

static int read_asked(struct making *m, const struct image_pull *p, struct err *e)
{
    const struct config *config = m->images->control->config;
    int r = oci_reference_parse(p->ref, &m->asked, e);

    if (r < 0)
        return err_wrap(e, r, "image");
    if (!m->asked.host[0] && !config->images.registry)
        return err_set(e, ERR_INVALID,
                       "image: it names no registry; write HOST/%s, or set images.registry in the "
                       "configuration",
                       m->asked.path);
    if (!m->asked.host[0])
        snprintf(m->asked.host, sizeof m->asked.host, "%s", config->images.registry);
    oci_reference_text(&m->asked, m->ref);
    m->platform = oci_platform_here();
    return p->platform.n ? oci_platform_parse(p->platform, &m->arena, &m->platform, e) : 0;
}

void images_pull(struct control *c, const struct caller *who, const struct image_pull *p,
                 struct image_op *op)
{
    struct making *m = making_new(c, who, op);
    struct err e;
    int r = read_asked(m, p, &e);

    m->from_registry = true;
    m->squash = p->squash;
    if (r >= 0)
        r = registry_init(&m->registry, c->loop, &c->images->requests, c->config, &m->asked,
                          p->credentials, &e);
    if (r < 0)
        making_fail(m, &e);
    else
        ask_manifest(m, m->asked.digest[0] ? m->asked.digest : m->asked.tag);
}
