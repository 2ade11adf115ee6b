/* Where package managers are and keep their configuration. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "packages/packages.h"
#include "proc/sys.h"

enum { LIST = 8, READ = O_RDONLY | O_NOCTTY | O_NONBLOCK };

struct source {
    const char *path;   /* below the root */
    const char *suffix; /* of names in it, if it is a directory; else NULL */
    packages_fn *read;
    bool home;
};

/* A variable is read as a line of configuration: its name there, and a '=' or ':'. */
struct variable {
    const char *name, *line;
    packages_fn *read;
};

static const struct manager {
    const char *programs[LIST];
    struct source sources[LIST];
    struct variable variables[LIST];
} managers[] = {
    { .programs = { "usr/bin/apt-get", "usr/bin/apt" },
      .sources = { { "etc/apt/sources.list", NULL, packages_read_apt, false },
                   { "etc/apt/sources.list.d", ".list", packages_read_apt, false },
                   { "etc/apt/sources.list.d", ".sources", packages_read_deb822, false } } },
    { .programs = { "usr/bin/pip3", "usr/bin/pip", "usr/local/bin/pip3", "usr/local/bin/pip",
                    "usr/local/bin/uv", "usr/bin/uv" },
      .sources = { { "etc/pip.conf", NULL, packages_read_pip, false },
                   { "etc/xdg/pip/pip.conf", NULL, packages_read_pip, false },
                   { "root/.pip/pip.conf", NULL, packages_read_pip, true },
                   { "root/.config/pip/pip.conf", NULL, packages_read_pip, true } },
      .variables = { { "PIP_INDEX_URL", "index-url=", packages_read_pip },
                     { "PIP_EXTRA_INDEX_URL", "extra-index-url=", packages_read_pip },
                     { "UV_INDEX_URL", "index-url=", packages_read_pip } } },
    { .programs = { "usr/bin/npm", "usr/local/bin/npm", "usr/local/bin/yarn",
                    "usr/local/bin/pnpm" },
      .sources = { { "etc/npmrc", NULL, packages_read_npm, false },
                   { "usr/etc/npmrc", NULL, packages_read_npm, false },
                   { "usr/local/etc/npmrc", NULL, packages_read_npm, false },
                   { "root/.npmrc", NULL, packages_read_npm, true } },
      .variables = { { "NPM_CONFIG_REGISTRY", "registry=", packages_read_npm },
                     { "npm_config_registry", "registry=", packages_read_npm } } },
    { .programs = { "usr/bin/cargo", "usr/local/cargo/bin/cargo", "root/.cargo/bin/cargo" },
      .sources = { { "usr/local/cargo/config.toml", NULL, packages_read_cargo, false },
                   { "root/.cargo/config.toml", NULL, packages_read_cargo, true },
                   { "root/.cargo/config", NULL, packages_read_cargo, true } } },
    { .programs = { "usr/bin/go", "usr/local/go/bin/go", "usr/lib/go/bin/go" },
      .sources = { { "usr/local/go/go.env", NULL, packages_read_go, false },
                   { "root/.config/go/env", NULL, packages_read_go, true } },
      .variables = { { "GOPROXY", "GOPROXY=", packages_read_go } } },
};

static int open_inside(int root, const char *path, uint64_t flags)
{
    return sys_openat2(root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static bool is_there(int root, const struct manager *m, bool home)
{
    for (size_t i = 0; i < LIST && m->programs[i]; i++) {
        bool of_home = str_starts(str_from(m->programs[i]), STR("root/"));
        AUTO_CLOSE int fd = of_home && !home ? -1 : open_inside(root, m->programs[i], O_PATH);

        if (fd >= 0)
            return true;
    }
    return false;
}

static void read_file(struct packages *p, int fd, packages_fn *read_text)
{
    AUTO_FREE char *text = malloc(PACKAGES_FILE_MAX + 1);
    struct stat st;
    ssize_t n;

    if (!text)
        abort();
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    n = read(fd, text, PACKAGES_FILE_MAX + 1);
    if (n > 0 && n <= PACKAGES_FILE_MAX)
        read_text(p, (struct str){ text, (size_t)n });
}

static void read_dir(struct packages *p, int root, const struct source *s)
{
    int fd = open_inside(root, s->path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir && fd >= 0)
        close(fd);
    for (int left = PACKAGES_FILES_MAX; dir && left > 0 && (entry = readdir(dir)); left--) {
        AUTO_CLOSE int file = -1;

        if (!str_ends(str_from(entry->d_name), str_from(s->suffix)))
            continue;
        file = open_inside(dirfd(dir), entry->d_name, READ | O_NOFOLLOW);
        read_file(p, file, s->read);
    }
    if (dir)
        closedir(dir);
}

static void read_sources(struct packages *p, int root, bool home, const struct manager *m)
{
    for (const struct source *s = m->sources; s < m->sources + LIST && s->path; s++) {
        AUTO_CLOSE int fd = -1;

        if (s->home && !home)
            continue;
        if (s->suffix) {
            read_dir(p, root, s);
            continue;
        }
        fd = open_inside(root, s->path, READ);
        read_file(p, fd, s->read);
    }
}

static void read_variable(struct packages *p, const struct variable *v, const char *const *env)
{
    size_t n = strlen(v->name);
    char line[4096];

    for (; *env; env++)
        if (strncmp(*env, v->name, n) == 0 && (*env)[n] == '=') {
            int size = snprintf(line, sizeof line, "%s%s", v->line, *env + n + 1);

            if (size < (int)sizeof line)
                v->read(p, (struct str){ line, (size_t)size });
            return;
        }
}

void packages_find(int root, bool home, const char *const *env, struct packages *ret)
{
    ret->n = 0;
    for (const struct manager *m = managers; m < managers + COUNT_OF(managers); m++) {
        if (!is_there(root, m, home))
            continue;
        read_sources(ret, root, home, m);
        for (const struct variable *v = m->variables; v < m->variables + LIST && v->name; v++)
            read_variable(ret, v, env);
    }
}
