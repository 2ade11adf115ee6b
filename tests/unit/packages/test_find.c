#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "harness/tap.h"
#include "packages/packages.h"

static char dir[] = "/tmp/packages-XXXXXX";
static int root = -1;

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void end(void)
{
    nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void begin(void)
{
    CHECK(mkdtemp(dir) != NULL);
    atexit(end);
    root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(const char *path, const char *text)
{
    char at[256];
    AUTO_CLOSE int fd = -1;

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(at, sizeof at, "%.*s", (int)(slash - path), path);
        mkdirat(root, at, 0755);
    }
    fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static bool has(const struct packages *p, const char *host)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->hosts[i], host) == 0)
            return true;
    return false;
}

static const char *const no_env[] = { NULL };

TEST(nothing_is_there)
{
    struct packages p;

    begin();
    put("etc/pip.conf", "index-url=https://a.example.org\n");
    packages_find(root, true, no_env, &p);
    CHECK(p.n == 0);
}

TEST(what_is_not_configured_brings_nothing)
{
    struct packages p;

    begin();
    put("usr/bin/pip3", "");
    put("usr/bin/npm", "");
    put("root/.npmrc", "registry=https://npm.example.org\n");
    packages_find(root, true, no_env, &p);
    CHECK(p.n == 1 && has(&p, "npm.example.org:443"));
    packages_find(root, false, no_env, &p);
    CHECK(p.n == 0);
}

TEST(directories_variables_and_files)
{
    static const char *const env[] = { "X=y", "PIP_INDEX_URL=https://env.example.org/simple",
                                       NULL };
    struct packages p;

    begin();
    put("usr/bin/apt-get", "");
    put("usr/bin/pip", "");
    put("etc/apt/sources.list.d/a.list", "deb http://a.example.org x\n");
    put("etc/apt/sources.list.d/b.sources", "URIs: http://b.example.org\n");
    put("etc/apt/sources.list.d/c.save", "deb http://no.example.org x\n");
    packages_find(root, false, env, &p);
    CHECK(p.n == 3);
    CHECK(has(&p, "a.example.org:80") && has(&p, "b.example.org:80"));
    CHECK(has(&p, "env.example.org:443"));
}

TEST(links_and_pipes_lead_nowhere)
{
    struct packages p;
    char outside[64];

    begin();
    put("usr/bin/npm", "");
    put("usr/bin/pip", "");
    put("outside", "registry=https://no.example.org\n");
    mkdirat(root, "etc", 0755);
    snprintf(outside, sizeof outside, "../../../../../..%s/outside", dir);
    CHECK(symlinkat(outside, root, "etc/npmrc") == 0);
    CHECK(mkfifoat(root, "etc/pip.conf", 0644) == 0);
    packages_find(root, false, no_env, &p);
    CHECK(p.n == 0);
}
