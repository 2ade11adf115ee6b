/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/package_hosts/package_hosts.h"

#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"

/* All hosts with a blank behind each. */
static const char *shown(const struct package_hosts *p)
{
    static char text[PACKAGE_HOSTS_HOSTS_MAX * PACKAGE_HOSTS_TEXT];
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < p->n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s ", p->hosts[i]);
    return text;
}

static void check(package_hosts_fn *read, const char *text, bool replaces, const char *want)
{
    struct package_hosts p = { .n = 0 };

    CHECK(read(&p, str_from(text)) == replaces);
    CHECK_STR(str_from(shown(&p)), want);
}

TEST(only_urls_with_a_host_count)
{
    static const struct {
        const char *url, *want;
    } rows[] = {
        { "https://Example.ORG/simple", "example.org:443 " },
        { "http://example.org:8080?x", "example.org:8080 " },
        { "https://user:p@ss@example.org/", "example.org:443 " },
        { "sparse+https://example.org/i", "example.org:443 " },
        { "http://[2606:2800:220:1::34]:81/x", "[2606:2800:220:1::34]:81 " },
        { "http://93.184.216.34/x", "93.184.216.34:80 " },
        { "http://127.0.0.1:3141/", "" },
        { "http://[::1]:3141/", "" },
        { "http://[::ffff:127.0.0.1]/", "" },
        { "http://10.0.0.1/", "" },
        { "http://169.254.169.254/", "" },
        { "http://0.0.0.0/", "" },
        { "http://metadata.google.internal/", "" },
        { "https://example.org:6443/", "" },
        { "ftp://example.org", "" },
        { "https://", "" },
        { "https://a b/", "" },
        { "https://${HOST}/", "" },
        { "https://example.org:99999/", "" },
        { "https://example.org:/", "" },
        { "https://1.2.3", "" },
        { "example.org", "" },
        { "cdrom:[Debian]/", "" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct package_hosts p = { .n = 0 };

        CHECK(package_hosts_add_url(&p, str_from(rows[i].url)) == (rows[i].want[0] != '\0'));
        CHECK_STR(str_from(shown(&p)), rows[i].want);
    }
}

TEST(a_nul_ends_no_host_early)
{
    struct package_hosts p = { .n = 0 };

    CHECK(!package_hosts_add_url(&p, STR("https://example.org\0.evil.example/")));
    CHECK(p.n == 0);
}

TEST(each_host_once_and_not_too_many)
{
    struct package_hosts p = { .n = 0 };
    char url[64];

    for (int i = 0; i < PACKAGE_HOSTS_HOSTS_MAX + 5; i++) {
        snprintf(url, sizeof url, "https://h%d.example.org", i % (PACKAGE_HOSTS_HOSTS_MAX + 3));
        package_hosts_add_url(&p, str_from(url));
    }
    CHECK(p.n == PACKAGE_HOSTS_HOSTS_MAX);
    CHECK(package_hosts_add_url(&p, STR("https://h0.example.org")));
}

TEST(apt_lines)
{
    check(package_hosts_read_apt,
          "# deb http://no.example.org x\n"
          "deb http://a.example.org/debian stable main\n"
          "deb [arch=amd64 signed-by=/k] https://b.example.org x\n"
          "deb [trusted=yes] https://c.example.org:444 x\n"
          "deb-src\thttp://a.example.org/ x\n"
          "deb cdrom:[x]/ y\n"
          "debx http://no.example.org x\n",
          true, "a.example.org:80 b.example.org:443 c.example.org:444 ");
    check(package_hosts_read_apt, "deb [", false, "");
    check(package_hosts_read_apt, "", false, "");
}

TEST(apt_stanzas)
{
    check(package_hosts_read_deb822,
          "Types: deb\nuris: http://a.example.org https://b.example.org\n"
          "# a comment between\n https://c.example.org\nSuites: x\n https://no.example.org\n",
          true, "a.example.org:80 b.example.org:443 c.example.org:443 ");
    check(
        package_hosts_read_deb822,
        "URIs: http://no.example.org\nEnabled: no\n\n\nEnabled: yes\nURIs: http://a.example.org\n\n"
        "Enabled: False\nURIs: http://no.example.org\n\nURIs: http://b.example.org\n Enabled: no",
        true, "a.example.org:80 b.example.org:80 ");
    check(package_hosts_read_deb822, "Enabled: no\n", false, "");
}

TEST(lists)
{
    check(
        package_hosts_read_list,
        "# http://no.example.org\nhttp://a.example.org/x\tpriority:1\n@tag https://b.example.org\n",
        true, "a.example.org:80 b.example.org:443 ");
    check(package_hosts_read_list, "/srv/packages\n", false, "");
}

TEST(uv_files)
{
    check(package_hosts_read_uv,
          "index-url = \"https://a.example.org/simple\"\n[[index]]\nurl = "
          "\"https://b.example.org\"\n",
          true, "a.example.org:443 b.example.org:443 ");
    check(package_hosts_read_uv, "[[index]]\nurl = \"https://b.example.org\"", false,
          "b.example.org:443 ");
}

TEST(gem_files)
{
    check(package_hosts_read_gem,
          "---\n:verbose: true\n:sources:\n- https://a.example.org\n  - \"http://b.example.org/\"\n"
          ":update_sources: true\n- https://no.example.org\n",
          true, "a.example.org:443 b.example.org:80 ");
    check(package_hosts_read_gem, ":sources:\n", false, "");
}

TEST(pip_as_it_was_built)
{
    check(package_hosts_built_in_pip,
          "class PackageIndex:\n\nPyPI = PackageIndex(\n    \"https://a.example.org/\",\n"
          "    file_storage_domain='b.example.org'\n)\n"
          "TestPyPI = PackageIndex(\"https://no.example.org/\")\n",
          true, "a.example.org:443 b.example.org:443 ");
    check(package_hosts_built_in_pip, "\nTestPyPI = PackageIndex(\"https://no.example.org/\")\n",
          false, "");
    check(package_hosts_built_in_pip, "\nPyPI = PackageIndex(\"https://a.example.org/", false, "");
    check(package_hosts_built_in_pip, "\nPyPI = PackageIndex(", false, "");
}

TEST(npm_as_it_was_built)
{
    check(package_hosts_built_in_npm,
          "'replace-registry-host', {\n default: 'https://no.example.org',\n})\n"
          "  registry: new Definition('registry', {\n    default: 'https://a.example.org/',\n",
          true, "a.example.org:443 ");
    check(package_hosts_built_in_npm,
          "('registry', {\n}),\n x, {\n default: 'https://no.example.org'", false, "");
    check(package_hosts_built_in_npm, "('registry', {\n default: '\nhttps://no.example.org'", false,
          "");
}

TEST(go_and_gem_as_they_were_built)
{
    check(package_hosts_built_in_go,
          "GOPROXY = envOr(\"GOPROXY\", \"https://a.example.org,direct\")\n", true,
          "a.example.org:443 ");
    check(package_hosts_built_in_go, "envOr(\"GOPROXY\", \"\")", false, "");
    check(package_hosts_built_in_gem,
          "  def self.default_sources\n    %w[https://a.example.org/]\n  end\n", true,
          "a.example.org:443 ");
    check(package_hosts_built_in_gem, "  def self.default_sources\n", false, "");
}

TEST(a_nul_in_a_name_of_a_program_text_is_no_end)
{
    struct package_hosts p = { .n = 0 };

    CHECK(!package_hosts_built_in_pip(&p, STR("\nPyPI = PackageIndex(\"https://a.example.org\", "
                                              "\"b.example.org\0.evil.example\")")));
    CHECK(p.n == 1);
}

TEST(pip_files)
{
    check(package_hosts_read_pip,
          "[global]\nindex-url = https://u:p@a.example.org/simple\n"
          "extra-index-url =\n    https://b.example.org\n    https://c.example.org:8443\n"
          "trusted-host = no.example.org\ntimeout = 3\n  https://no.example.org\n",
          true, "a.example.org:443 b.example.org:443 c.example.org:8443 ");
    check(package_hosts_read_pip, "extra-index-url=https://b.example.org", false,
          "b.example.org:443 ");
    check(package_hosts_read_pip, "; index-url=https://no.example.org\n", false, "");
}

TEST(npm_files)
{
    check(package_hosts_read_npm,
          "registry = https://a.example.org/\n@x:registry=\"https://b.example.org\"\n"
          "//a.example.org/:_authToken=s\nproxy=http://no.example.org\n",
          true, "a.example.org:443 b.example.org:443 ");
    check(package_hosts_read_npm, "@x:registry=https://b.example.org", false, "b.example.org:443 ");
}

TEST(cargo_files)
{
    check(package_hosts_read_cargo,
          "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\n"
          "registry = \"sparse+https://a.example.org/i/\"\n",
          true, "a.example.org:443 ");
    check(package_hosts_read_cargo, "[registries.x]\nindex = \"https://b.example.org\"\n", false,
          "b.example.org:443 ");
}

TEST(go_files)
{
    check(package_hosts_read_go,
          "GOPROXY=https://a.example.org,http://b.example.org|direct\nGOFLAGS=x", true,
          "a.example.org:443 b.example.org:80 ");
    check(package_hosts_read_go, "GOPROXY=direct", false, "");
}
