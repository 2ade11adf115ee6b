/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_file.h"

#include "lib/json/reader.h"
#include "domain/policy/egress_check.h"
#include "lib/yaml/file.h"
#include "lib/yaml/reader.h"

static const struct json_limits yaml_limits = { .bytes = EGRESS_FILE_BYTES_MAX,
                                                .depth = EGRESS_FILE_DEPTH_MAX,
                                                .places = true };
static const struct json_limits json_limits_ = { .bytes = EGRESS_JSON_BYTES_MAX,
                                                 .depth = EGRESS_FILE_DEPTH_MAX };

static int bind_policy(const struct json *document, struct arena *a, struct egress_policy *ret,
                       struct err *e)
{
    struct egress_policy p = { 0 };
    int r;

    if (document->type == JSON_NULL)
        return err_set(e, ERR_INVALID, "is empty; a policy needs at least 'version: 1'");
    r = json_bind(document, egress_policy_fields, egress_policy_field_count, &p, a, e);
    if (r >= 0)
        r = egress_check(&p, (struct egress_places){ .document = document }, a, e);
    if (r >= 0)
        *ret = p;
    return r;
}

int egress_policy_read_document(struct str yaml, struct arena *a, struct egress_policy *ret,
                                const struct json **ret_document, struct err *e)
{
    int r = yaml_read(yaml, yaml_limits, a, ret_document, e);

    return r < 0 ? r : bind_policy(*ret_document, a, ret, e);
}

int egress_policy_read(struct str yaml, struct arena *a, struct egress_policy *ret, struct err *e)
{
    const struct json *document;

    return egress_policy_read_document(yaml, a, ret, &document, e);
}

int egress_policy_read_file(int dir, const char *file, unsigned flags, struct arena *a,
                            struct egress_policy *ret, struct err *e)
{
    const struct json *document;
    int r = yaml_file_read(dir, file, flags, yaml_limits, a, &document, e);

    return r < 0 ? r : bind_policy(document, a, ret, e);
}

int egress_policy_from_json(struct str json, struct arena *a, struct egress_policy *ret,
                            struct err *e)
{
    const struct json *document;
    int r = json_read(json, json_limits_, a, &document, e);

    return r < 0 ? r : bind_policy(document, a, ret, e);
}

int egress_policy_to_json(const struct egress_policy *p, struct buf *out, struct err *e)
{
    struct json_writer w;

    if (!p->checked_)
        return err_set(e, ERR_BUG, "internal error: unchecked policy written");
    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind(p, egress_policy_fields, egress_policy_field_count, &w);
    return json_writer_finish(&w, e);
}
