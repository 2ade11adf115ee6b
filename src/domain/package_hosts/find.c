/* SPDX-License-Identifier: Apache-2.0 */
/* Finds package managers and their configuration files. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "domain/package_hosts/package_hosts.h"
#include "lib/proc/sys.h"

enum { LIST = 8, PATH_TEXT = 512, ENTRIES_MAX = 4096, READ = O_RDONLY | O_NOCTTY | O_NONBLOCK };

/* A file, or with prefix or suffix the files of a directory whose names match. `below`: not these
 * files, but the file with this path below each of them. */
struct package_source {
    const char *path; /* below the root, or with "~/" below the home directory */
    package_hosts_fn *read;
    const char *prefix, *suffix, *below;
};

/* A variable is parsed as a line of configuration: its name there, with '=' or ':'. */
struct package_variable {
    const char *name, *line;
    package_hosts_fn *read;
};

#define IN(path_, read_, ...)                                                                      \
    {                                                                                              \
        .path = (path_), .read = (read_), __VA_ARGS__                                              \
    }
#define NPM_OLD "lib/utils/config/definitions.js"
#define NPM_NEW "@npmcli/config/lib/definitions/definitions.js"
#define NPMRC                                                                                      \
    IN("etc/npmrc", package_hosts_read_npm), IN("usr/etc/npmrc", package_hosts_read_npm),          \
        IN("usr/local/etc/npmrc", package_hosts_read_npm), IN("~/.npmrc", package_hosts_read_npm)
#define NPM_VARIABLES                                                                              \
    { "NPM_CONFIG_REGISTRY", "registry=", package_hosts_read_npm },                                \
    {                                                                                              \
        "npm_config_registry", "registry=", package_hosts_read_npm                                 \
    }
#define PIP_INDEX "pip/_internal/models/index.py"

static const struct manager {
    const char *name;
    const char *programs[LIST];
    struct package_source sources[LIST];
    struct package_variable variables[LIST];
    struct package_source built_in[LIST]; /* the first that names a host is used */
} managers[] = {
    { .name = "apt",
      .programs = { "usr/bin/apt-get", "usr/bin/apt" },
      .sources = { IN("etc/apt/sources.list", package_hosts_read_apt),
                   IN("etc/apt/sources.list.d", package_hosts_read_apt, .suffix = ".list"),
                   IN("etc/apt/sources.list.d", package_hosts_read_deb822, .suffix = ".sources"),
                   IN("etc/apt/mirrors", package_hosts_read_list, .suffix = ".list") } },
    { .name = "apk",
      .programs = { "sbin/apk", "usr/bin/apk" },
      .sources = { IN("etc/apk/repositories", package_hosts_read_list) } },
    { .name = "pip",
      .programs = { "usr/bin/pip3", "usr/bin/pip", "usr/local/bin/pip3", "usr/local/bin/pip" },
      .sources = { IN("etc/pip.conf", package_hosts_read_pip),
                   IN("etc/xdg/pip/pip.conf", package_hosts_read_pip),
                   IN("~/.pip/pip.conf", package_hosts_read_pip),
                   IN("~/.config/pip/pip.conf", package_hosts_read_pip) },
      .variables = { { "PIP_INDEX_URL", "index-url=", package_hosts_read_pip },
                     { "PIP_EXTRA_INDEX_URL", "extra-index-url=", package_hosts_read_pip } },
      .built_in = { IN("usr/lib/python3/dist-packages/" PIP_INDEX, package_hosts_built_in_pip),
                    IN("usr/local/lib", package_hosts_built_in_pip, .prefix = "python3",
                       .below = "site-packages/" PIP_INDEX),
                    IN("usr/lib", package_hosts_built_in_pip, .prefix = "python3",
                       .below = "site-packages/" PIP_INDEX) } },
    { .name = "uv",
      .programs = { "usr/local/bin/uv", "usr/bin/uv", "~/.local/bin/uv" },
      .sources = { IN("etc/uv/uv.toml", package_hosts_read_uv),
                   IN("~/.config/uv/uv.toml", package_hosts_read_uv) },
      .variables = { { "UV_INDEX_URL", "index-url=", package_hosts_read_pip },
                     { "UV_DEFAULT_INDEX", "index-url=", package_hosts_read_pip } } },
    { .name = "npm",
      .programs = { "usr/bin/npm", "usr/local/bin/npm" },
      .sources = { NPMRC },
      .variables = { NPM_VARIABLES },
      .built_in = { IN("usr/local/lib/node_modules/npm/node_modules/" NPM_NEW,
                       package_hosts_built_in_npm),
                    IN("usr/lib/node_modules/npm/node_modules/" NPM_NEW,
                       package_hosts_built_in_npm),
                    IN("usr/share/nodejs/" NPM_NEW, package_hosts_built_in_npm),
                    IN("usr/local/lib/node_modules/npm/" NPM_OLD, package_hosts_built_in_npm),
                    IN("usr/lib/node_modules/npm/" NPM_OLD, package_hosts_built_in_npm),
                    IN("usr/share/nodejs/npm/" NPM_OLD, package_hosts_built_in_npm) } },
    { .name = "yarn",
      .programs = { "usr/local/bin/yarn", "usr/bin/yarn", "usr/bin/yarnpkg" },
      .sources = { NPMRC },
      .variables = { NPM_VARIABLES } },
    { .name = "pnpm",
      .programs = { "usr/local/bin/pnpm", "usr/bin/pnpm" },
      .sources = { NPMRC },
      .variables = { NPM_VARIABLES } },
    { .name = "cargo",
      .programs = { "usr/bin/cargo", "usr/local/cargo/bin/cargo", "~/.cargo/bin/cargo" },
      .sources = { IN("usr/local/cargo/config.toml", package_hosts_read_cargo),
                   IN("~/.cargo/config.toml", package_hosts_read_cargo),
                   IN("~/.cargo/config", package_hosts_read_cargo) } },
    { .name = "go",
      .programs = { "usr/bin/go", "usr/local/go/bin/go", "usr/lib/go/bin/go" },
      .sources = { IN("~/.config/go/env", package_hosts_read_go) },
      .variables = { { "GOPROXY", "GOPROXY=", package_hosts_read_go } },
      .built_in = { IN("usr/local/go/go.env", package_hosts_read_go),
                    IN("usr/lib/go/go.env", package_hosts_read_go),
                    IN("usr/local/go/src/cmd/go/internal/cfg/cfg.go", package_hosts_built_in_go),
                    IN("usr/lib/go/src/cmd/go/internal/cfg/cfg.go", package_hosts_built_in_go) } },
    { .name = "gem",
      .programs = { "usr/bin/gem", "usr/local/bin/gem" },
      .sources = { IN("etc/gemrc", package_hosts_read_gem),
                   IN("~/.gemrc", package_hosts_read_gem) },
      .built_in = { IN("usr/local/lib/ruby", package_hosts_built_in_gem, .prefix = "",
                       .below = "rubygems/defaults.rb"),
                    IN("usr/lib/ruby", package_hosts_built_in_gem, .prefix = "",
                       .below = "rubygems/defaults.rb") } },
};
_Static_assert(COUNT_OF(managers) <= PACKAGE_HOSTS_MANAGERS_MAX, "each may be unknown");

struct search_root {
    int root;
    const char *home; /* NULL: the sandbox will see neither it nor /etc */
};

static int open_inside(const struct search_root *at, const char *path, uint64_t flags)
{
    char full[PATH_TEXT];

    if (str_starts(str_from(path), STR("~/"))) {
        if (!at->home ||
            snprintf(full, sizeof full, "%s/%s", at->home, path + 2) >= (int)sizeof full)
            return -1;
        path = full;
    }
    return sys_openat2(at->root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static bool has_manager(const struct search_root *at, const struct manager *m)
{
    for (size_t i = 0; i < LIST && m->programs[i]; i++) {
        AUTO_CLOSE int fd = open_inside(at, m->programs[i], O_PATH);

        if (fd >= 0)
            return true;
    }
    return false;
}

static bool read_package_file(struct package_hosts *p, const struct search_root *at,
                              const char *path, package_hosts_fn *read_text)
{
    AUTO_CLOSE int fd = open_inside(at, path, READ);
    AUTO_FREE char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    text = malloc(PACKAGE_HOSTS_FILE_MAX + 1);
    if (!text)
        abort();
    n = read(fd, text, PACKAGE_HOSTS_FILE_MAX + 1);
    return n > 0 && n <= PACKAGE_HOSTS_FILE_MAX && read_text(p, (struct str){ text, (size_t)n });
}

static bool read_package_dir(struct package_hosts *p, const struct search_root *at,
                             const struct package_source *s)
{
    int fd = open_inside(at, s->path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    char path[PATH_TEXT];
    int files = 0;
    bool any = false;

    if (!dir && fd >= 0)
        close(fd);
    for (int i = 0; dir && i < ENTRIES_MAX && (entry = readdir(dir)); i++) {
        struct str name = str_from(entry->d_name);

        if (name.p[0] == '.' || (s->prefix && !str_starts(name, str_from(s->prefix))) ||
            (s->suffix && !str_ends(name, str_from(s->suffix))))
            continue;
        if (++files > PACKAGE_HOSTS_FILES_MAX)
            break;
        if (snprintf(path, sizeof path, "%s/%s%s%s", s->path, entry->d_name, s->below ? "/" : "",
                     s->below ? s->below : "") < (int)sizeof path)
            any |= read_package_file(p, at, path, s->read);
    }
    if (dir)
        closedir(dir);
    return any;
}

static bool read_package_source(struct package_hosts *p, const struct search_root *at,
                                const struct package_source *s)
{
    return s->prefix || s->suffix ? read_package_dir(p, at, s)
                                  : read_package_file(p, at, s->path, s->read);
}

/* configured: some configuration names the host that a manager uses first. settled: the manager will see
 * that configuration. */
struct package_finding {
    bool configured, settled;
};

static void note_finding(struct package_finding *f, bool configured, bool seen)
{
    f->configured |= configured;
    f->settled |= configured && seen;
}

static bool read_package_variable(struct package_hosts *p, const struct package_variable *v,
                                  const char *const *env)
{
    size_t n = strlen(v->name);
    char line[4096];

    for (; *env; env++)
        if (strncmp(*env, v->name, n) == 0 && (*env)[n] == '=') {
            int size = snprintf(line, sizeof line, "%s%s", v->line, *env + n + 1);

            return size < (int)sizeof line && v->read(p, (struct str){ line, (size_t)size });
        }
    return false;
}

void package_hosts_find(enum package_hosts_trust trust, int root, const char *home,
                        const char *const *env, struct package_hosts *ret)
{
    const struct search_root at = { root, home };

    ret->n = ret->n_unknown = 0;
    for (const struct manager *m = managers; m < managers + COUNT_OF(managers); m++) {
        struct package_finding found = { 0 };
        bool built_in;

        if (!has_manager(&at, m))
            continue;
        ret->trusted_ = trust >= PACKAGE_HOSTS_OF_OPERATOR;
        for (const struct package_source *s = m->sources; s < m->sources + LIST && s->path; s++)
            note_finding(&found, read_package_source(ret, &at, s),
                         home || !str_starts(str_from(s->path), STR("etc/")));
        ret->trusted_ = trust >= PACKAGE_HOSTS_OF_CALLER;
        for (const struct package_variable *v = m->variables; v < m->variables + LIST && v->name;
             v++)
            note_finding(&found, read_package_variable(ret, v, env), true);
        ret->trusted_ = false;
        built_in = false;
        for (const struct package_source *s = m->built_in;
             !found.settled && !built_in && s < m->built_in + LIST && s->path; s++)
            built_in = read_package_source(ret, &at, s);
        if (!found.settled && !built_in && !found.configured)
            ret->unknown[ret->n_unknown++] = m->name;
    }
}
