/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/units.h"
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
const struct answer_kind kind_image = KIND("images", "ref", columns);

const struct verb verb_image_list = {
    .name = "image list",
    .aliases = "images,image ls",
    .summary = "list the images that sandboxes can be created from",
    .text = "  sandboxer image list\n",
    REQUEST("GET", "/v1/images", .kind = &kind_image, .list = true),
};

const struct verb verb_image_inspect = {
    .name = "image inspect",
    ARGUMENTS("REF", 1, 1, COMPLETE_IMAGE),
    .summary = "show an image, its layers and its configuration",
    .text = "  sandboxer image inspect registry.example.org/team/web:1.2 -o json\n",
    REQUEST("GET", "/v1/images/inspect", .query = "ref", .kind = &kind_image),
};

/* --- pull --- */

struct pull_options {
    struct common common;
    const char *platform, *creds_file;
    bool squash;
};

static const struct option_spec pull_options[] = {
    { "platform", 0, "OS/ARCH", "platform of a multi-platform image (default: this machine's)",
      .at = offsetof(struct pull_options, platform), .member = "platform" },
    { "creds-file", 0, "FILE", "file with USER:PASSWORD for the registry",
      .at = offsetof(struct pull_options, creds_file), .complete = COMPLETE_FILE },
    { "squash-owners", 0, NULL, "everything in it belongs to root",
      .at = offsetof(struct pull_options, squash), .member = "squash_owners" },
};

static int print_image_ref(const struct api_call *c, const struct json *ref)
{
    struct json member = *ref;
    const struct json image = { .type = JSON_OBJECT, .list = { &member, 1 } };

    member.key = STR("ref");
    return c->common->quiet
               ? answer_record(c, &image, &kind_image)
               : answer_done(c, NULL, STR_FMT " %s", STR_ARG(ref->s), c->verb->request->done);
}

/* An archive may hold several. */
static int print_image_refs(const struct api_call *c, const void *options, char **argv)
{
    const struct json *ref = show_at(c->answer, "ref"), *also = show_at(c->answer, "also");
    int status;

    if (!ref || ref->type != JSON_STR)
        return answer_record(c, c->answer, &kind_image);
    status = print_image_ref(c, ref);
    if (!also)
        return status;
    for (const struct json *v = json_first(also); v != json_end(also) && !status; v++)
        if (v->type == JSON_STR)
            status = print_image_ref(c, v);
    return status;
}

/* Credentials are read from a file, because every user on the machine can read arguments. */
static int write_registry_credentials(struct api_call *c, void *options, char **argv)
{
    const struct pull_options *o = options;
    AUTO_CLOSE int fd = o->creds_file ? open(o->creds_file, O_RDONLY | O_CLOEXEC) : -1;
    char credentials[CREDENTIALS_MAX];
    ssize_t n = fd < 0 ? -1 : read(fd, credentials, sizeof credentials - 1);

    if (!o->creds_file)
        return 0;
    if (n < 0)
        return verb_failed(c->verb, "%s: %s", o->creds_file, strerror(errno));
    while (n > 0 && (credentials[n - 1] == '\n' || credentials[n - 1] == '\r'))
        n--;
    credentials[n] = '\0';
    if (!strchr(credentials, ':'))
        return verb_failed(c->verb, "%s: must be USER:PASSWORD", o->creds_file);
    json_field_cstr(&c->json, "credentials", credentials);
    explicit_bzero(credentials, sizeof credentials);
    return 0;
}

const struct verb verb_image_pull = {
    .name = "image pull",
    .aliases = "pull",
    ARGUMENTS("REF", 1, 1, COMPLETE_NOTHING),
    .summary = "bring an image from a registry",
    .text = "REF is HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]; the default HOST is the\n"
            "configuration's images.registry. Layers that are stored already are not fetched\n"
            "again, and an interrupted pull continues where it stopped.\n"
            "\n"
            "  sandboxer image pull registry.example.org/team/web:1.2\n"
            "  sandboxer image pull registry.example.org/team/web --creds-file ~/.registry\n",
    OPTIONS(pull_options, struct pull_options),
    REQUEST("POST", "/v1/images/pull", .body = BODY_JSON, .members = { "ref" },
            .prepare = write_registry_credentials, .doing = "pulling", .lines = true,
            .kind = &kind_image, .done = "pulled", .print = print_image_refs),
};

/* --- import --- */

struct image_archive_options {
    struct common common;
    const char *name, *platform;
    bool squash;
};

static const struct option_spec import_options[] = {
    { "name", 'n', "REF", "name of the image (default: the archive's)",
      .at = offsetof(struct image_archive_options, name), .query = "name" },
    { "platform", 0, "OS/ARCH", "platform of a multi-platform archive (default: this machine's)",
      .at = offsetof(struct image_archive_options, platform), .query = "platform" },
    { "squash-owners", 0, NULL, "everything in it belongs to root",
      .at = offsetof(struct image_archive_options, squash), .query = "squash_owners" },
};

const struct verb verb_image_import = {
    .name = "image import",
    ARGUMENTS("FILE|DIR|-", 1, 1, COMPLETE_FILE),
    .summary = "make an image of an archive or a directory",
    .text = "Takes an OCI layout (a directory or a tar archive), what `docker save` or `podman\n"
            "save` writes, and root file systems as a tar archive or a directory; compressed\n"
            "with gzip, xz or zstd, or not. '-' is stdin. Of an archive with several images all\n"
            "are taken, or the one that --name says.\n"
            "\n"
            "  sandboxer image import rootfs.tar.gz --name web:1\n"
            "  podman save web:1 | sandboxer image import -\n"
            "  sandboxer image import ./oci-layout --name web:1\n",
    OPTIONS(import_options, struct image_archive_options),
    REQUEST("POST", "/v1/images/import", .body = BODY_TAR, .doing = "importing", .lines = true,
            .kind = &kind_image, .done = "imported", .print = print_image_refs),
};

/* --- remove, prune, verify --- */

const struct verb verb_image_remove = {
    .name = "image remove",
    .aliases = "rmi,image rm",
    ARGUMENTS("REF", 1, 1, COMPLETE_IMAGE),
    .summary = "remove an unused image, and the layers that only it needs",
    .text = "  sandboxer image remove registry.example.org/team/web:1.2\n",
    REQUEST("DELETE", "/v1/images", .query = "ref", .doing = "removing", .done = "removed"),
};

static int print_pruned(const struct api_call *c, const void *options, char **argv)
{
    unsigned long long n = show_count(c->answer, "layers");
    char bytes[24];

    if (!n)
        return answer_done(c, c->answer, "no layer is unused: nothing was removed");
    units_show_bytes(show_count(c->answer, "bytes"), bytes);
    return answer_done(c, c->answer, "%llu layer%s removed, %s freed", n, n == 1 ? "" : "s", bytes);
}

const struct verb verb_image_prune = {
    .name = "image prune",
    .summary = "remove layers that no image and no sandbox uses",
    .text = "  sandboxer image prune\n",
    REQUEST("POST", "/v1/images/prune", .doing = "pruning", .print = print_pruned),
};

const struct verb verb_image_verify = {
    .name = "image verify",
    ARGUMENTS("REF", 1, 1, COMPLETE_IMAGE),
    .summary = "verify that an image's layers are unchanged",
    .text = "Reads and hashes all of its files.\n"
            "\n"
            "  sandboxer image verify registry.example.org/team/web:1.2\n",
    REQUEST("POST", "/v1/images/verify", .body = BODY_JSON, .members = { "ref" },
            .doing = "verifying", .print = request_print_verified),
};
