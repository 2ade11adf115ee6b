/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/archive.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

enum { CREDENTIALS_MAX = 4096 };

static const struct column columns[] = {
    COLUMN("IMAGE", "ref", .most = 70),
    COLUMN("DIGEST", "digest", .most = 19),
    COLUMN("SIZE", "bytes", .show = show_bytes),
    COLUMN("CREATED", "created_at", .show = show_age),
    COLUMN("OS", "os", .alone = true),
    COLUMN("ARCHITECTURE", "architecture", .alone = true),
    COLUMN("ID", "id", .alone = true),
    COLUMN("SANDBOXES", "sandboxes", .alone = true),
    COLUMN("LAYERS", "layers", .alone = true, .block = true),
    COLUMN("CONFIGURATION", "config", .alone = true, .block = true),
};
const struct answer_kind kind_image = { "images", "ref", columns, COUNT_OF(columns) };

/* --- list, inspect --- */

static int run_image_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/images", .kind = &kind_image, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_image_list = {
    .name = "image list",
    .arguments = "",
    .summary = "list the images that sandboxes can be created from",
    .text = "  sandboxer image list\n",
    .run = run_image_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_inspect(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &common, "GET");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/images/inspect");
    api_call_query(&c, "ref", argv[0]);
    status = api_call_run(&c);
    return status ? status : answer_record(&c, c.answer, &kind_image);
}

const struct verb verb_image_inspect = {
    .name = "image inspect",
    .arguments = "REF",
    .summary = "show an image, its layers and its configuration",
    .text = "  sandboxer image inspect registry.example.org/team/web:1.2 -o json\n",
    .run = run_inspect,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_IMAGE,
};

/* --- pull --- */

struct pull_options {
    struct common common;
    const char *platform, *creds_file;
    bool squash;
};

static const struct option_spec pull_options[] = {
    { "platform", 0, "OS/ARCH", "platform of a multi-platform image (default: this machine's)",
      .kind = OPTION_TEXT, .at = offsetof(struct pull_options, platform) },
    { "creds-file", 0, "FILE", "file with USER:PASSWORD for the registry", .kind = OPTION_TEXT,
      .at = offsetof(struct pull_options, creds_file), .complete = COMPLETE_FILE },
    { "squash-owners", 0, NULL, "everything in it belongs to root", .kind = OPTION_FLAG,
      .at = offsetof(struct pull_options, squash) },
};

/* Credentials are read from a file, because every user on the machine can read arguments. */
static int read_registry_credentials(const char *path, char out[static CREDENTIALS_MAX],
                                     struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, CREDENTIALS_MAX - 1);

    if (n < 0)
        return err_sys(e, "%s", path);
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    out[n] = '\0';
    return strchr(out, ':') ? 0 : err_set(e, ERR_INVALID, "%s: must be USER:PASSWORD", path);
}

static int answer_name(const struct api_call *c, const struct json *ref, const char *done)
{
    struct json member = *ref;
    const struct json image = { .type = JSON_OBJECT, .list = { &member, 1 } };

    member.key = STR("ref");
    return c->common->quiet ? answer_record(c, &image, &kind_image)
                            : answer_done(c, NULL, STR_FMT " %s", STR_ARG(ref->s), done);
}

/* An archive may hold several. */
static int print_image_refs(const struct api_call *c, const char *done)
{
    const struct json *ref = show_at(c->answer, "ref"), *also = show_at(c->answer, "also");
    int status;

    if (common_format(c->common) != FORMAT_TEXT || !ref || ref->type != JSON_STR)
        return answer_record(c, c->answer, &kind_image);
    status = answer_name(c, ref, done);
    if (!also)
        return status;
    for (const struct json *v = json_first(also); v != json_end(also) && !status; v++)
        if (v->type == JSON_STR)
            status = answer_name(c, v, done);
    return status;
}

static int run_pull(const struct verb *v, int argc, char **argv)
{
    struct pull_options o = { 0 };
    char credentials[CREDENTIALS_MAX] = "";
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (o.creds_file && read_registry_credentials(o.creds_file, credentials, &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/images/pull");
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "ref", argv[0]);
    body_text(w, "platform", o.platform);
    body_text(w, "credentials", credentials[0] ? credentials : NULL);
    body_flag(w, "squash_owners", o.squash);
    json_end_object(w);
    c.doing = "pulling";
    c.lines = true;
    c.patience = 0;
    status = api_call_run(&c);
    memset(credentials, 0, sizeof credentials);
    return status ? status : print_image_refs(&c, "pulled");
}

const struct verb verb_image_pull = {
    .name = "image pull",
    .arguments = "REF",
    .summary = "bring an image from a registry",
    .text =
        "REF is HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]; the default HOST is the configuration's\n"
        "images.registry. Layers that are stored already are not fetched again, and an "
        "interrupted\n"
        "pull continues where it stopped.\n"
        "\n"
        "  sandboxer image pull registry.example.org/team/web:1.2\n"
        "  sandboxer image pull registry.example.org/team/web --creds-file ~/.registry\n",
    .options = pull_options,
    .n_options = COUNT_OF(pull_options),
    .run = run_pull,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
};

/* --- import --- */

struct image_archive_options {
    struct common common;
    const char *name, *platform;
    bool squash;
};

static const struct option_spec import_options[] = {
    { "name", 'n', "REF", "name of the image (default: the archive's)", .kind = OPTION_TEXT,
      .at = offsetof(struct image_archive_options, name) },
    { "platform", 0, "OS/ARCH", "platform of a multi-platform archive (default: this machine's)",
      .kind = OPTION_TEXT, .at = offsetof(struct image_archive_options, platform) },
    { "squash-owners", 0, NULL, "everything in it belongs to root", .kind = OPTION_FLAG,
      .at = offsetof(struct image_archive_options, squash) },
};

static int run_image_import(const struct verb *v, int argc, char **argv)
{
    struct image_archive_options o = { 0 };
    AUTO(archive_done) struct archive a = ARCHIVE_NONE;
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (archive_open(&a, argv[0], &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/images/import");
    api_call_query(&c, "name", o.name);
    api_call_query(&c, "platform", o.platform);
    api_call_query(&c, "squash_owners", o.squash ? "true" : NULL);
    api_call_field(&c, "Content-Type", "application/x-tar");
    c.more = archive_more;
    c.more_user = &a;
    c.doing = "importing";
    c.lines = true;
    c.patience = 0;
    status = api_call_run(&c);
    return status ? status : print_image_refs(&c, "imported");
}

const struct verb verb_image_import = {
    .name = "image import",
    .arguments = "FILE|DIR|-",
    .summary = "make an image of an archive or a directory",
    .text =
        "Takes an OCI layout (a directory or a tar archive), what `docker save` or `podman save`\n"
        "writes, and root file systems as a tar archive or a directory; compressed with gzip, xz\n"
        "or zstd, or not. '-' is stdin. Of an archive with several images all are taken, or the\n"
        "one that --name says.\n"
        "\n"
        "  sandboxer image import rootfs.tar.gz --name web:1\n"
        "  podman save web:1 | sandboxer image import -\n"
        "  sandboxer image import ./oci-layout --name web:1\n",
    .options = import_options,
    .n_options = COUNT_OF(import_options),
    .run = run_image_import,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};

/* --- remove, prune, verify --- */

static int run_image_remove(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &common, "DELETE");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/images");
    api_call_query(&c, "ref", argv[0]);
    c.doing = "removing";
    c.patience = 0;
    status = api_call_run(&c);
    return status ? status : answer_done(&c, c.answer, "%s removed", argv[0]);
}

const struct verb verb_image_remove = {
    .name = "image remove",
    .arguments = "REF",
    .summary = "remove an unused image, and the layers that only it needs",
    .text = "  sandboxer image remove registry.example.org/team/web:1.2\n",
    .run = run_image_remove,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_IMAGE,
};

static int run_prune(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    unsigned long long n;
    char bytes[24];
    int status;

    api_call_init(&c, v, &common, "POST");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/images/prune");
    c.doing = "pruning";
    c.patience = 0;
    status = api_call_run(&c);
    if (status)
        return status;
    units_show_bytes(answer_number(&c, "bytes"), bytes);
    n = (unsigned long long)answer_number(&c, "layers");
    if (!n)
        return answer_done(&c, c.answer, "no layer is unused: nothing was removed");
    return answer_done(&c, c.answer, "%llu layer%s removed, %s freed", n, n == 1 ? "" : "s", bytes);
}

const struct verb verb_image_prune = {
    .name = "image prune",
    .arguments = "",
    .summary = "remove layers that no image and no sandbox uses",
    .text = "  sandboxer image prune\n",
    .run = run_prune,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_image_verify(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    int status;

    api_call_init(&c, v, &common, "POST");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/images/verify");
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "ref", argv[0]);
    json_end_object(w);
    return answer_verified(&c, argv[0]);
}

const struct verb verb_image_verify = {
    .name = "image verify",
    .arguments = "REF",
    .summary = "verify that an image's layers are unchanged",
    .text = "Reads and hashes all of its files.\n"
            "\n"
            "  sandboxer image verify registry.example.org/team/web:1.2\n",
    .run = run_image_verify,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_IMAGE,
};
