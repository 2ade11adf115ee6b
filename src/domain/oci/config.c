/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/config.h"

#include "lib/json/writer.h"
#include "domain/oci/document.h"

enum { PATH_LONGEST = 4095, USER_LONGEST = 64 };

/* "" if it is absent. Rejects control characters: without its user, a program would run as root. */
static int read_run_text(const struct json *v, const char *key, const char **ret, struct err *e)
{
    const struct json *m = json_get(v, str_from(key));

    *ret = oci_text(v, key);
    if (!*ret && m && m->type == JSON_STR)
        return err_set(e, ERR_INVALID, "%s contains a control character", key);
    *ret = *ret ? *ret : "";
    return 0;
}

/* Reads the defaults for programs; all members are optional. */
static int read_run(const struct json *v, struct arena *a, struct oci_config *c, struct err *e)
{
    int r = oci_texts(v, "Env", OCI_ENV_MAX, a, &c->env, e);
    struct str name;

    for (size_t i = 0; r >= 0 && i < c->env.n; i++)
        if (!str_cut(str_from(c->env.p[i]), '=', &name).p || name.n == 0)
            r = err_set(e, ERR_INVALID, "a variable of the image is not NAME=VALUE");
    if (r >= 0)
        r = read_run_text(v, "User", &c->user, e);
    if (r >= 0)
        r = read_run_text(v, "WorkingDir", &c->workdir, e);
    if (r >= 0)
        r = oci_texts(v, "Entrypoint", OCI_ARGUMENTS_MAX, a, &c->entrypoint, e);
    if (r >= 0)
        r = oci_texts(v, "Cmd", OCI_ARGUMENTS_MAX, a, &c->cmd, e);
    if (r >= 0 && c->workdir[0] && (c->workdir[0] != '/' || strlen(c->workdir) > PATH_LONGEST))
        r = err_set(e, ERR_INVALID, "WorkingDir is not an absolute path");
    if (r >= 0 && strlen(c->user) > USER_LONGEST)
        r = err_set(e, ERR_INVALID, "User has more than %d bytes", USER_LONGEST);
    return r;
}

int oci_config_run(const struct json *v, struct arena *a, struct oci_config *ret, struct err *e)
{
    struct oci_config c = { .user = "", .workdir = "", .run = v };
    int r = v ? read_run(v, a, &c, e) : 0;

    if (r >= 0)
        *ret = c;
    return r;
}

int oci_config_read(struct str text, struct arena *a, struct oci_config *ret, struct err *e)
{
    struct oci_config c = { .user = "", .workdir = "" };
    const struct json *v, *run, *rootfs;
    int r = oci_document(text, "configuration", a, &v, e);

    if (r < 0)
        return r;
    run = json_get(v, STR("config"));
    rootfs = json_get(v, STR("rootfs"));
    c.platform = (struct oci_platform){ oci_text(v, "os"), oci_text(v, "architecture"),
                                        oci_text(v, "variant") };
    if (!rootfs || rootfs->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "the image's configuration has no rootfs");
    r = oci_texts(rootfs, "diff_ids", OCI_LAYERS_MAX, a, &c.diff_ids, e);
    if (r >= 0 && c.diff_ids.n == 0)
        r = err_set(e, ERR_INVALID, "the image has no layers");
    for (size_t i = 0; r >= 0 && i < c.diff_ids.n; i++)
        if (!oci_digest_valid(str_from(c.diff_ids.p[i])))
            r = err_set(e, ERR_INVALID,
                        "rootfs.diff_ids contains an entry that is not a SHA-256 digest");
    if (r >= 0 && run && run->type == JSON_OBJECT) {
        c.run = run;
        r = read_run(run, a, &c, e);
    }
    if (r < 0)
        return err_wrap(e, r, "the image's configuration");
    *ret = c;
    return 0;
}

int oci_config_write(const char *diff_id, struct buf *out, struct err *e)
{
    struct oci_platform here = oci_platform_here();
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "architecture", here.architecture);
    json_field_cstr(&w, "os", here.os);
    if (here.variant)
        json_field_cstr(&w, "variant", here.variant);
    json_field_begin_object(&w, "config");
    json_end_object(&w);
    json_field_begin_object(&w, "rootfs");
    json_field_cstr(&w, "type", "layers");
    json_field_begin_array(&w, "diff_ids");
    json_put_str(&w, str_from(diff_id));
    json_end_array(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}
