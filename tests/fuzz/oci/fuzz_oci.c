/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is. References that are taken have one spelling; digests and
 * names that come out of a document are ones that paths can be made of. */
#include <stdint.h>
#include <stdlib.h>

#include "domain/oci/challenge.h"
#include "domain/oci/config.h"
#include "domain/oci/manifest.h"
#include "domain/oci/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void try_reference(struct str s, struct arena *a)
{
    char text[OCI_REFERENCE_MAX], other[OCI_REFERENCE_MAX];
    struct oci_reference r, again;
    struct err e;

    if (oci_reference_parse(s, &r, &e) < 0)
        return;
    oci_reference_text(&r, text);
    must(oci_reference_parse(str_from(text), &again, &e) >= 0);
    oci_reference_text(&again, other);
    must(strcmp(text, other) == 0 && !strstr(r.path, "..") && r.path[0] != '/');
}

static void try_manifest(struct str s, struct arena *a)
{
    enum oci_document kind;
    struct oci_manifest m;
    struct err e;

    (void)oci_document_kind(s, a, &kind, &e);
    if (oci_manifest_read(s, a, &m, &e) < 0)
        return;
    for (size_t i = 0; i < m.n; i++)
        must(oci_digest_valid(str_from(m.layers[i].digest)));
}

static void try_index(struct str s, struct arena *a)
{
    const struct oci_platform here = oci_platform_here();
    struct oci_index x;
    struct err e;

    if (oci_index_read(s, a, &x, &e) >= 0)
        (void)oci_index_choose(&x, &here);
}

static void try_config(struct str s, struct arena *a)
{
    struct oci_config c;
    struct err e;

    if (oci_config_read(s, a, &c, &e) < 0)
        return;
    must(c.diff_ids.n > 0 && c.diff_ids.n <= OCI_LAYERS_MAX);
    for (size_t i = 0; i < c.diff_ids.n; i++)
        must(oci_digest_valid(str_from(c.diff_ids.p[i])));
    for (size_t i = 0; i < c.env.n; i++)
        must(strchr(c.env.p[i], '='));
}

static void try_saved(struct str s, struct arena *a)
{
    const struct oci_saved *all;
    struct err e;
    size_t n;

    if (oci_saved_read(s, a, &all, &n, &e) >= 0)
        must(n > 0 && all[0].config && all[0].layers.n > 0);
}

static void try_challenge(struct str s, struct arena *a)
{
    struct oci_challenge c;
    struct err e;

    if (oci_challenge_parse(s, &c, &e) >= 0)
        must(!c.bearer || c.realm[0]);
}

static void try_platform(struct str s, struct arena *a)
{
    struct oci_platform p;
    struct err e;

    if (oci_platform_parse(s, a, &p, &e) >= 0)
        must(p.os[0] && p.architecture[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct str s, struct arena * a) = {
        try_reference, try_manifest, try_index, try_config, try_saved, try_challenge, try_platform,
    };
    struct arena a = ARENA_INIT(OCI_ARENA_MAX);

    if (size == 0)
        return 0;
    tries[data[0] % 7]((struct str){ (const char *)data + 1, size - 1 }, &a);
    arena_done(&a);
    return 0;
}
