/* Where package managers are and keep their configuration. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "packages/packages.h"
#include "proc/sys.h"

enum { LIST = 8, PATH_TEXT = 512, ENTRIES_MAX = 4096, READ = O_RDONLY | O_NOCTTY | O_NONBLOCK };

/* A file, or with prefix or suffix those of a directory whose names begin and end so; below: not
 * they, but what has this path in them. */
struct source {
    const char *path; /* below the root, or with "~/" below the home directory */
    packages_fn *read;
    const char *prefix, *suffix, *below;
};

/* A variable is read as a line of configuration: its name there, and a '=' or ':'. */
struct variable {
    const char *name, *line;
    packages_fn *read;
};

#define IN(path_, read_, ...)                                                                      \
    {                                                                                              \
        .path = (path_), .read = (read_), __VA_ARGS__                                              \
    }
#define NPM_OLD "lib/utils/config/definitions.js"
#define NPM_NEW "@npmcli/config/lib/definitions/definitions.js"
#define NPMRC                                                                                      \
    IN("etc/npmrc", packages_read_npm), IN("usr/etc/npmrc", packages_read_npm),                    \
        IN("usr/local/etc/npmrc", packages_read_npm), IN("~/.npmrc", packages_read_npm)
#define PIP_INDEX "pip/_internal/models/index.py"

static const struct manager {
    const char *name;
    const char *programs[LIST];
    struct source sources[LIST];
    struct variable variables[LIST];
    struct source built_in[LIST]; /* the first that says something counts */
} managers[] = {
    { .name = "apt",
      .programs = { "usr/bin/apt-get", "usr/bin/apt" },
      .sources = { IN("etc/apt/sources.list", packages_read_apt),
                   IN("etc/apt/sources.list.d", packages_read_apt, .suffix = ".list"),
                   IN("etc/apt/sources.list.d", packages_read_deb822, .suffix = ".sources"),
                   IN("etc/apt/mirrors", packages_read_list, .suffix = ".list") } },
    { .name = "apk",
      .programs = { "sbin/apk", "usr/bin/apk" },
      .sources = { IN("etc/apk/repositories", packages_read_list) } },
    { .name = "pip",
      .programs = { "usr/bin/pip3", "usr/bin/pip", "usr/local/bin/pip3", "usr/local/bin/pip" },
      .sources = { IN("etc/pip.conf", packages_read_pip),
                   IN("etc/xdg/pip/pip.conf", packages_read_pip),
                   IN("~/.pip/pip.conf", packages_read_pip),
                   IN("~/.config/pip/pip.conf", packages_read_pip) },
      .variables = { { "PIP_INDEX_URL", "index-url=", packages_read_pip },
                     { "PIP_EXTRA_INDEX_URL", "extra-index-url=", packages_read_pip } },
      .built_in = { IN("usr/lib/python3/dist-packages/" PIP_INDEX, packages_built_in_pip),
                    IN("usr/local/lib", packages_built_in_pip, .prefix = "python3",
                       .below = "site-packages/" PIP_INDEX),
                    IN("usr/lib", packages_built_in_pip, .prefix = "python3",
                       .below = "site-packages/" PIP_INDEX) } },
    { .name = "uv",
      .programs = { "usr/local/bin/uv", "usr/bin/uv", "~/.local/bin/uv" },
      .sources = { IN("etc/uv/uv.toml", packages_read_uv),
                   IN("~/.config/uv/uv.toml", packages_read_uv) },
      .variables = { { "UV_INDEX_URL", "index-url=", packages_read_pip },
                     { "UV_DEFAULT_INDEX", "index-url=", packages_read_pip } } },
    { .name = "npm",
      .programs = { "usr/bin/npm", "usr/local/bin/npm" },
      .sources = { NPMRC },
      .variables = { { "NPM_CONFIG_REGISTRY", "registry=", packages_read_npm },
                     { "npm_config_registry", "registry=", packages_read_npm } },
      .built_in = { IN("usr/local/lib/node_modules/npm/node_modules/" NPM_NEW,
                       packages_built_in_npm),
                    IN("usr/lib/node_modules/npm/node_modules/" NPM_NEW, packages_built_in_npm),
                    IN("usr/share/nodejs/" NPM_NEW, packages_built_in_npm),
                    IN("usr/local/lib/node_modules/npm/" NPM_OLD, packages_built_in_npm),
                    IN("usr/lib/node_modules/npm/" NPM_OLD, packages_built_in_npm),
                    IN("usr/share/nodejs/npm/" NPM_OLD, packages_built_in_npm) } },
    { .name = "yarn",
      .programs = { "usr/local/bin/yarn", "usr/bin/yarn", "usr/bin/yarnpkg" },
      .sources = { NPMRC },
      .variables = { { "NPM_CONFIG_REGISTRY", "registry=", packages_read_npm },
                     { "npm_config_registry", "registry=", packages_read_npm } } },
    { .name = "pnpm",
      .programs = { "usr/local/bin/pnpm", "usr/bin/pnpm" },
      .sources = { NPMRC },
      .variables = { { "NPM_CONFIG_REGISTRY", "registry=", packages_read_npm },
                     { "npm_config_registry", "registry=", packages_read_npm } } },
    { .name = "cargo",
      .programs = { "usr/bin/cargo", "usr/local/cargo/bin/cargo", "~/.cargo/bin/cargo" },
      .sources = { IN("usr/local/cargo/config.toml", packages_read_cargo),
                   IN("~/.cargo/config.toml", packages_read_cargo),
                   IN("~/.cargo/config", packages_read_cargo) } },
    { .name = "go",
      .programs = { "usr/bin/go", "usr/local/go/bin/go", "usr/lib/go/bin/go" },
      .sources = { IN("~/.config/go/env", packages_read_go) },
      .variables = { { "GOPROXY", "GOPROXY=", packages_read_go } },
      .built_in = { IN("usr/local/go/go.env", packages_read_go),
                    IN("usr/lib/go/go.env", packages_read_go),
                    IN("usr/local/go/src/cmd/go/internal/cfg/cfg.go", packages_built_in_go),
                    IN("usr/lib/go/src/cmd/go/internal/cfg/cfg.go", packages_built_in_go) } },
    { .name = "gem",
      .programs = { "usr/bin/gem", "usr/local/bin/gem" },
      .sources = { IN("etc/gemrc", packages_read_gem), IN("~/.gemrc", packages_read_gem) },
      .built_in = { IN("usr/local/lib/ruby", packages_built_in_gem, .prefix = "",
                       .below = "rubygems/defaults.rb"),
                    IN("usr/lib/ruby", packages_built_in_gem, .prefix = "",
                       .below = "rubygems/defaults.rb") } },
};
_Static_assert(COUNT_OF(managers) <= PACKAGES_MANAGERS_MAX, "each may be unknown");

struct place {
    int root;
    const char *home; /* NULL: it will not be seen, and neither will /etc */
};

static bool is_below(const char *path, struct str directory)
{
    return str_starts(str_from(path), directory);
}

static int open_inside(const struct place *at, const char *path, uint64_t flags)
{
    char full[PATH_TEXT];

    if (is_below(path, STR("~/"))) {
        if (!at->home ||
            snprintf(full, sizeof full, "%s/%s", at->home, path + 2) >= (int)sizeof full)
            return -1;
        path = full;
    }
    return sys_openat2(at->root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static bool is_there(const struct place *at, const struct manager *m)
{
    for (size_t i = 0; i < LIST && m->programs[i]; i++) {
        AUTO_CLOSE int fd = open_inside(at, m->programs[i], O_PATH);

        if (fd >= 0)
            return true;
    }
    return false;
}

static bool read_file(struct packages *p, const struct place *at, const char *path,
                      packages_fn *read_text)
{
    AUTO_CLOSE int fd = open_inside(at, path, READ);
    AUTO_FREE char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    text = malloc(PACKAGES_FILE_MAX + 1);
    if (!text)
        abort();
    n = read(fd, text, PACKAGES_FILE_MAX + 1);
    return n > 0 && n <= PACKAGES_FILE_MAX && read_text(p, (struct str){ text, (size_t)n });
}

static bool is_meant(const struct source *s, const char *name)
{
    return name[0] != '.' && (!s->prefix || str_starts(str_from(name), str_from(s->prefix))) &&
           (!s->suffix || str_ends(str_from(name), str_from(s->suffix)));
}

static bool read_dir(struct packages *p, const struct place *at, const struct source *s)
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
        if (!is_meant(s, entry->d_name))
            continue;
        if (++files > PACKAGES_FILES_MAX)
            break;
        if (snprintf(path, sizeof path, "%s/%s%s%s", s->path, entry->d_name, s->below ? "/" : "",
                     s->below ? s->below : "") < (int)sizeof path)
            any |= read_file(p, at, path, s->read);
    }
    if (dir)
        closedir(dir);
    return any;
}

static bool read_source(struct packages *p, const struct place *at, const struct source *s)
{
    return s->prefix || s->suffix ? read_dir(p, at, s) : read_file(p, at, s->path, s->read);
}

/* Whether it is said where a manager looks first, and where the manager will see it. */
struct finding {
    bool said, settled;
};

static void note(struct finding *f, bool said, bool seen)
{
    f->said |= said;
    f->settled |= said && seen;
}

static void read_sources(struct packages *p, const struct place *at, const struct manager *m,
                         struct finding *f)
{
    for (const struct source *s = m->sources; s < m->sources + LIST && s->path; s++)
        note(f, read_source(p, at, s), at->home || !is_below(s->path, STR("etc/")));
}

static bool read_variable(struct packages *p, const struct variable *v, const char *const *env)
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

static bool read_built_in(struct packages *p, const struct place *at, const struct manager *m)
{
    for (const struct source *s = m->built_in; s < m->built_in + LIST && s->path; s++)
        if (read_source(p, at, s))
            return true;
    return false;
}

void packages_find(int root, const char *home, const char *const *env, struct packages *ret)
{
    packages_find_for(PACKAGES_OF_IMAGE, root, home, env, ret);
}

void packages_find_for(enum packages_trust trust, int root, const char *home,
                       const char *const *env, struct packages *ret)
{
    const struct place at = { root, home };

    ret->n = ret->n_unknown = 0;
    for (const struct manager *m = managers; m < managers + COUNT_OF(managers); m++) {
        struct finding found = { 0 };

        if (!is_there(&at, m))
            continue;
        ret->trusted_ = trust >= PACKAGES_OF_OPERATOR;
        read_sources(ret, &at, m, &found);
        ret->trusted_ = trust >= PACKAGES_OF_CALLER;
        for (const struct variable *v = m->variables; v < m->variables + LIST && v->name; v++)
            note(&found, read_variable(ret, v, env), true);
        ret->trusted_ = false;
        if (!found.settled && !read_built_in(ret, &at, m) && !found.said)
            ret->unknown[ret->n_unknown++] = m->name;
    }
}
