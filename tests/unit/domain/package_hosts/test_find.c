/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "harness/tap.h"
#include "domain/package_hosts/package_hosts.h"

static char dir[] = "/tmp/packages-XXXXXX";
static int root = -1;

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
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

static bool has(const struct package_hosts *p, const char *host)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->hosts[i], host) == 0)
            return true;
    return false;
}

static const char *const no_env[] = { NULL };

TEST(nothing_is_there)
{
    struct package_hosts p;

    begin();
    put("etc/pip.conf", "index-url=https://a.example.org\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 0);
}

static bool is_unknown(const struct package_hosts *p, const char *manager)
{
    for (size_t i = 0; i < p->n_unknown; i++)
        if (strcmp(p->unknown[i], manager) == 0)
            return true;
    return false;
}

TEST(what_says_nothing_brings_nothing_and_is_told)
{
    struct package_hosts p;

    begin();
    put("usr/bin/pip3", "");
    put("usr/bin/npm", "");
    put("root/.npmrc", "registry=https://npm.example.org\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 1 && has(&p, "npm.example.org:443"));
    CHECK(p.n_unknown == 1 && is_unknown(&p, "pip"));
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, no_env, &p);
    CHECK(p.n == 0 && p.n_unknown == 2 && is_unknown(&p, "npm"));
}

#define PIP_INDEX "site-packages/pip/_internal/models/index.py"
#define NPM_DEFINITIONS                                                                            \
    "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"

TEST(what_is_not_configured_is_as_it_was_built)
{
    struct package_hosts p;

    begin();
    put("usr/local/bin/pip", "");
    put("usr/local/lib/python3.12/" PIP_INDEX,
        "\nPyPI = PackageIndex(\"https://pip.example.org/\", "
        "file_storage_domain=\"f.example.org\")\n");
    put("usr/bin/npm", "");
    put(NPM_DEFINITIONS, "define('registry', {\n  default: 'https://npm.example.org/',\n})\n");
    put("usr/local/go/bin/go", "");
    put("usr/local/go/go.env", "GOPROXY=https://go.example.org,direct\n");
    put("usr/bin/gem", "");
    put("usr/lib/ruby/vendor_ruby/rubygems/defaults.rb",
        "def self.default_sources\n  %w[https://gem.example.org/]\nend\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, no_env, &p);
    CHECK(p.n == 5 && p.n_unknown == 0);
    CHECK(has(&p, "pip.example.org:443") && has(&p, "f.example.org:443"));
    CHECK(has(&p, "npm.example.org:443") && has(&p, "go.example.org:443"));
    CHECK(has(&p, "gem.example.org:443"));
}

TEST(configuration_takes_the_place_of_what_was_built_where_it_is_seen)
{
    static const char *const env[] = { "npm_config_registry=https://env.example.org", NULL };
    struct package_hosts p;

    begin();
    put("usr/bin/npm", "");
    put(NPM_DEFINITIONS, "define('registry', {\n  default: 'https://built.example.org/',\n})\n");
    put("etc/npmrc", "registry=https://etc.example.org\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 1 && has(&p, "etc.example.org:443"));
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, no_env,
                       &p); /* a sandbox on the system has an /etc of its own */
    CHECK(p.n == 2 && has(&p, "etc.example.org:443") && has(&p, "built.example.org:443"));
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, env, &p);
    CHECK(p.n == 2 && has(&p, "etc.example.org:443") && has(&p, "env.example.org:443"));
}

TEST(scopes_and_extra_places_are_added_to_what_was_built)
{
    struct package_hosts p;

    begin();
    put("usr/bin/npm", "");
    put(NPM_DEFINITIONS, "define('registry', {\n  default: 'https://built.example.org/',\n})\n");
    put("root/.npmrc", "@x:registry=https://scope.example.org\n");
    put("usr/bin/cargo", "");
    put("root/.cargo/config.toml", "[registries.x]\nindex = \"https://own.example.org\"\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 3 && has(&p, "built.example.org:443") && has(&p, "scope.example.org:443"));
    CHECK(has(&p, "own.example.org:443") && p.n_unknown == 1 && is_unknown(&p, "cargo"));
}

TEST(the_user_has_a_home)
{
    struct package_hosts p;

    begin();
    put("usr/bin/npm", "");
    put("home/me/.npmrc", "registry=https://me.example.org\n");
    put("root/.npmrc", "registry=https://root.example.org\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/home/me", no_env, &p);
    CHECK(p.n == 1 && has(&p, "me.example.org:443"));
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/../../home/me/", no_env, &p);
    CHECK(p.n == 1 && has(&p, "me.example.org:443"));
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/nowhere", no_env, &p);
    CHECK(p.n == 0 && is_unknown(&p, "npm"));
}

TEST(mirrors_and_repositories)
{
    struct package_hosts p;

    begin();
    put("usr/bin/apt", "");
    put("sbin/apk", "");
    put("etc/apt/sources.list.d/a.sources", "URIs: mirror+file:///etc/apt/mirrors/a.list\n");
    put("etc/apt/mirrors/a.list", "https://a.example.org/debian\tpriority:1\n");
    put("etc/apk/repositories", "#https://no.example.org\n@edge https://k.example.org/main\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 2 && p.n_unknown == 0);
    CHECK(has(&p, "a.example.org:443") && has(&p, "k.example.org:443"));
}

TEST(a_directory_of_files_has_an_end)
{
    struct package_hosts p;
    char path[64], text[64];

    begin();
    put("usr/bin/apt", "");
    for (int i = 0; i < PACKAGE_HOSTS_FILES_MAX + 8; i++) {
        snprintf(path, sizeof path, "etc/apt/sources.list.d/%d.list", i);
        snprintf(text, sizeof text, "deb http://h%d.example.org x\n", i);
        put(path, text);
    }
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == PACKAGE_HOSTS_FILES_MAX && p.n <= PACKAGE_HOSTS_HOSTS_MAX);
}

TEST(what_is_too_long_is_passed_over)
{
    AUTO_FREE char *text = malloc(PACKAGE_HOSTS_FILE_MAX + 2);
    struct package_hosts p;

    begin();
    CHECK(text != NULL);
    memset(text, '\n', PACKAGE_HOSTS_FILE_MAX + 1);
    memcpy(text, "registry=https://a.example.org", 30);
    text[PACKAGE_HOSTS_FILE_MAX + 1] = '\0';
    put("usr/bin/npm", "");
    put("etc/npmrc", text);
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 0 && is_unknown(&p, "npm"));
}

/* With any installed managers, the results are hosts, and nothing hangs or breaks. */
TEST(this_machine)
{
    AUTO_CLOSE int system = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct package_hosts p;
    struct host host;
    uint16_t port;

    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, system, NULL, no_env, &p);
    for (size_t i = 0; i < p.n; i++)
        CHECK(authority_parse(str_from(p.hosts[i]), 0, &host, &port, NULL) >= 0 && port != 0);
    if (access("/usr/lib/python3/dist-packages/pip/_internal/models/index.py", R_OK) == 0 &&
        access("/usr/bin/pip3", X_OK) == 0)
        CHECK(p.n >= 2 && !is_unknown(&p, "pip"));
}

TEST(directories_variables_and_files)
{
    static const char *const env[] = { "X=y", "PIP_INDEX_URL=https://env.example.org/simple",
                                       NULL };
    struct package_hosts p;

    begin();
    put("usr/bin/apt-get", "");
    put("usr/bin/pip", "");
    put("etc/apt/sources.list.d/a.list", "deb http://a.example.org x\n");
    put("etc/apt/sources.list.d/b.sources", "URIs: http://b.example.org\n");
    put("etc/apt/sources.list.d/c.save", "deb http://no.example.org x\n");
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, env, &p);
    CHECK(p.n == 3);
    CHECK(has(&p, "a.example.org:80") && has(&p, "b.example.org:80"));
    CHECK(has(&p, "env.example.org:443"));
}

TEST(links_and_pipes_lead_nowhere)
{
    struct package_hosts p;
    char outside[64];

    begin();
    put("usr/bin/npm", "");
    put("usr/bin/pip", "");
    put("outside", "registry=https://no.example.org\n");
    mkdirat(root, "etc", 0755);
    snprintf(outside, sizeof outside, "../../../../../..%s/outside", dir);
    CHECK(symlinkat(outside, root, "etc/npmrc") == 0);
    CHECK(mkfifoat(root, "etc/pip.conf", 0644) == 0);
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, NULL, no_env, &p);
    CHECK(p.n == 0);
}

TEST(links_inside_are_followed_inside)
{
    struct package_hosts p;

    begin();
    put("usr/bin/npm", "");
    put("real/npmrc", "registry=https://a.example.org\n");
    mkdirat(root, "etc", 0755);
    CHECK(symlinkat("/real/npmrc", root, "etc/npmrc") == 0);
    package_hosts_find(PACKAGE_HOSTS_OF_IMAGE, root, "/root", no_env, &p);
    CHECK(p.n == 1 && has(&p, "a.example.org:443"));
}
