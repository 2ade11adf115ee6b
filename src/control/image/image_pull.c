/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls from a registry: the manifest of a name, the configuration that it names, then the
 * layers. The digest of every document is checked, except that of the first one if it was
 * requested by tag. */
#include <stdio.h>

#include "control/image/images_internal.h"

enum { INDEXES_MAX = 2, MANIFEST = sizeof "manifests/" - 1, BLOB = sizeof "blobs/" - 1 };

static int check_document_digest(const char *wanted, struct str text,
                                 char ret[static OCI_DIGEST_MAX], struct err *e)
{
    image_digest(text, ret);
    if (!wanted[0] || strcmp(wanted, ret) == 0)
        return 0;
    return err_set(e, ERR_UPSTREAM,
                   "the registry sent a document with digest %.19s… instead of %.19s…", ret,
                   wanted);
}

static void get_document(struct image_making *m, const char *what, const char *accept,
                         registry_done_fn *done)
{
    m->get = (struct registry_get){
        .registry = &m->registry, .accept = accept, .max_body = OCI_DOCUMENT_MAX, .done = done
    };
    snprintf(m->get.what, sizeof m->get.what, "%s", what);
    registry_start(&m->get);
}

/* --- the configuration --- */

static void on_pulled_config(struct registry_get *g, int r, const struct err *e,
                             const struct fetch_answer *a)
{
    struct image_making *m = container_of(g, struct image_making, get);
    char digest[OCI_DIGEST_MAX];
    struct err bad;

    if (r < 0) {
        image_making_fail(m, e);
        return;
    }
    r = check_document_digest(m->manifest.config.digest, a->body, digest, &bad);
    r = r < 0 ? r : image_making_set_config(m, a->body, &bad);
    r = r < 0 ? r : image_making_plan(m, &bad);
    if (r >= 0 && m->n != m->manifest.n)
        r = err_set(&bad, ERR_INVALID, "the manifest has %zu layers, but the configuration has %zu",
                    m->manifest.n, m->n);
    for (size_t i = 0; r >= 0 && i < m->n; i++) {
        snprintf(m->parts[i].digest, sizeof m->parts[i].digest, "%s", m->manifest.layers[i].digest);
        m->parts[i].size = m->manifest.layers[i].size;
    }
    if (r < 0)
        image_making_fail(m, &bad);
    else
        image_making_continue(m);
}

/* --- manifests --- */

static void request_manifest(struct image_making *m, const char *name);

static int follow_index(struct image_making *m, struct str text, struct err *e)
{
    const struct oci_descriptor *found;
    struct oci_index x;
    int r = oci_index_read(text, &m->arena, &x, e);

    if (r < 0)
        return r;
    found = oci_index_choose(&x, &m->platform);
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "%s is not available for %s/%s%s%s", m->ref,
                       m->platform.os, m->platform.architecture, m->platform.variant ? "/" : "",
                       m->platform.variant ? m->platform.variant : "");
    if (++m->indexes > INDEXES_MAX)
        return err_set(e, ERR_INVALID, "the image's indexes are nested more than %d deep",
                       INDEXES_MAX);
    request_manifest(m, found->digest);
    return 0;
}

static int read_pulled_manifest(struct image_making *m, struct str text, struct err *e)
{
    char what[sizeof m->get.what];
    enum oci_document kind;
    int r = oci_document_kind(text, &m->arena, &kind, e);

    if (r >= 0 && kind == OCI_INDEX)
        return follow_index(m, text, e);
    r = r < 0 ? r : oci_manifest_read(text, &m->arena, &m->manifest, e);
    if (r < 0)
        return r;
    snprintf(what, sizeof what, "blobs/%s", m->manifest.config.digest);
    get_document(m, what, NULL, on_pulled_config);
    return 0;
}

static void on_pulled_manifest(struct registry_get *g, int r, const struct err *e,
                               const struct fetch_answer *a)
{
    struct image_making *m = container_of(g, struct image_making, get);
    const char *requested = g->what + MANIFEST;
    AUTO(buf_done) struct buf text = BUF_INIT(OCI_DOCUMENT_MAX);
    struct err bad;

    if (r < 0) {
        image_making_fail(m, e);
        return;
    }
    r = check_document_digest(oci_digest_valid(str_from(requested)) ? requested : "", a->body,
                              m->digest, &bad);
    if (r >= 0 && buf_add(&text, a->body) < 0) /* the answer is freed by the next request */
        r = err_set(&bad, ERR_TOO_BIG,
                    "the manifest of the image has %zu bytes, more than the allowed %zu", a->body.n,
                    text.max);
    r = r < 0 ? r : read_pulled_manifest(m, buf_str(&text), &bad);
    if (r < 0)
        image_making_fail(m, &bad);
}

static void request_manifest(struct image_making *m, const char *name)
{
    char what[sizeof m->get.what];

    snprintf(what, sizeof what, "manifests/%s", name);
    image_making_report(m, "manifest", 0, 0);
    get_document(m, what, OCI_ACCEPT, on_pulled_manifest);
}

/* --- the start --- */

static int parse_pull_request(struct image_making *m, const struct image_pull *p, struct err *e)
{
    const struct config *config = m->images->control->config;
    int r = oci_reference_parse(p->ref, &m->requested, e);

    if (r < 0)
        return err_wrap(e, r, "image");
    if (!m->requested.host[0] && !config->images.registry)
        return err_set(e, ERR_INVALID,
                       "image: the name has no registry; write HOST/%s, or set images.registry in "
                       "the configuration",
                       m->requested.path);
    if (!m->requested.host[0])
        snprintf(m->requested.host, sizeof m->requested.host, "%s", config->images.registry);
    oci_reference_text(&m->requested, m->ref);
    m->platform = oci_platform_here();
    return p->platform.n ? oci_platform_parse(p->platform, &m->arena, &m->platform, e) : 0;
}

void images_pull(struct control *c, const struct caller *who, const struct image_pull *p,
                 struct image_op *op)
{
    struct image_making *m = image_making_new(c, who, op);
    struct err e;
    int r = parse_pull_request(m, p, &e);

    m->from_registry = true;
    m->squash = p->squash;
    if (r >= 0)
        r = registry_init(&m->registry, c->loop, &c->images->requests, c->config, &m->requested,
                          p->credentials, &e);
    if (r < 0)
        image_making_fail(m, &e);
    else
        request_manifest(m, m->requested.digest[0] ? m->requested.digest : m->requested.tag);
}
