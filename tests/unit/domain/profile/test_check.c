/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"
#include "domain/profile/profile.h"

/* Every text follows two lines with id and version, unless it has its own. */
static const struct {
    const char *yaml, *message;
} bad[] = {
    { "ttl: {default: 2h, max: 1h}\n", "line 3: ttl.default: must not be longer than ttl.max" },
    { "ttl:\n  max: 30m\n", "line 3: ttl.default: must not be longer" },
    { "ttl:\n  max: 31d\n", "line 4: ttl.max: must be a duration" },
    { "ttl:\n  default: 0\n", "line 4: ttl.default: must be a duration" },
    { "ttl:\n  idle_reap: soon\n", "line 4: ttl.idle_reap: expected a duration" },
    { "ttl:\n  idle: 5m\n", "line 4: ttl.idle: no such field; there are: default, max" },
    { "nonsense: 1\n", "line 3: nonsense: no such field" },
    { "isolation:\n  level: strong\n",
      "line 4: isolation.level: expected one of: process, container" },
    { "isolation:\n  level: microvm\n", "line 4: isolation.level: ext.local does not offer this" },
    { "extension: ext.e2b\n", "isolation.level: ext.local only offers process" },
    { "extension: ext.gvisor\nisolation: {level: container}\n",
      "line 4: isolation.level: ext.gvisor does not" },
    { "extension: e2b\n", "line 3: extension: must be 'ext.NAME'" },
    { "network:\n  default: allow\n", "line 4: network.default: expected one of: deny" },
    { "workspace:\n  mode: copy\n", "line 4: workspace.mode: expected one of: mirror, remote-can" },
    { "workspace:\n  access: yes\n", "line 4: workspace.access: expected one of: none, ro, rw" },
    { "scope_default: all\n", "line 3: scope_default: expected one of: session, agent, shared" },
    { "resources:\n  cpu: 0\n", "line 4: resources.cpu: must be at least 0.01" },
    { "resources:\n  cpu: many\n", "line 4: resources.cpu: expected a number" },
    { "resources:\n  memory_mb: 1\n", "line 4: resources.memory_mb: must be a whole number" },
    { "resources:\n  pids: 99999999\n", "line 4: resources.pids: must be a whole number" },
    { "resources:\n  disk_mb: -1\n", "line 4: resources.disk_mb: must be a whole number" },
    { "placement:\n  prefer: 'a b'\n", "line 4: placement.prefer: must be a host's name" },
    { "placement:\n  fallback: [a, -b]\n", "line 4: placement.fallback[1]: must be a host's" },
    { "placement:\n  prefer: a\n  fallback: [b, a]\n",
      "line 5: placement.fallback[1]: names a place that is already listed" },
    { "placement:\n  fallback:\n  - a\n  - b\n  - a\n",
      "line 7: placement.fallback[2]: names a place that is already listed" },
    { "placement:\n  fallback: local\n", "line 4: placement.fallback: expected a list" },
    { "setup:\n  secret_refs: ['a b']\n", "line 4: setup.secret_refs[0]: must be a name" },
    { "caps:\n- CHOWN\n- SYS_ADMIN\n", "line 5: caps[1]: must be one of CHOWN" },
    { "kernel:\n  allow: [page-cache, bpf]\n", "line 4: kernel.allow[1]: must be one of nested-s" },
    { "kernel:\n  allow: page-cache\n", "line 4: kernel.allow: expected a list" },
    { "kernel:\n  calls: all\n", "line 4: kernel.calls: expected one of: standard, strict" },
    { "resources:\n  terminals: 257\n", "line 4: resources.terminals: must be a whole number" },
    { "env:\n  1A: x\n", "line 4: env.1A: variable names must" },
    { "env:\n  A: 1\n", "line 4: env.A: expected a string" },
    { "image: /x\nwritable_system: true\n",
      "line 4: writable_system: is only for sandboxes without" },
    { "workdir: here\n", "line 3: workdir: must be an absolute path" },
    { "user: 70000\n", "line 3: user: expected a string" },
    { "user: '70000'\n", "line 3: user: must be a user's name" },
    { "pool: {min: 3, max: 2}\n", "line 3: pool.min: must not be more than pool.max, which is 2" },
    { "reachability: pigeon\n", "line 3: reachability: expected one of: exec, ssh, http" },
    { "route:\n  strategy: fast\n", "line 4: route.strategy: expected one of" },
    { "route:\n  region: 'EU west'\n", "line 4: route.region: must be a name" },
    { "metadata:\n  cost_class: free\n", "line 4: metadata.cost_class: expected one of: self-hos" },
    { "network:\n  egress: everything\n", "line 4: network.egress: expected a list of objects" },
    { "network:\n  egress:\n  - ports: [1]\n", "line 5: network.egress[0].host: is required" },
    { "network:\n  egress:\n  - host: a.b\n",
      "line 5: network.egress[0].ports: must be a list of 1 to 32" },
    { "network:\n  egress:\n  - host: '*.com'\n    ports: [1]\n",
      "line 5: network.egress[0].host: must have two labels without wildcards" },
    { "network:\n  egress:\n  - {host: a.b, ports: [1]}\n  - host: a.b\n    ports: []\n",
      "line 7: network.egress[1].ports: must be a list of 1 to 32" },
    { "network:\n  egress: [{host: a.b, ports: [0]}]\n", "network.egress[0].ports: a port must" },
    { "network:\n  egress: [{host: a.b, ports: [65536]}]\n",
      "network.egress[0].ports: a port must" },
    { "network:\n  egress: [{host: a.b, ports: ['80']}]\n",
      "network.egress[0].ports: a port must" },
    { "network:\n  egress: [{host: a.b, ports: [80], protocol: rest}]\n",
      "network.egress[0].access: or rules are needed" },
    { "network:\n  egress: [{host: a.b, ports: [80], access: full}]\n",
      "network.egress[0].access: needs an inspected protocol" },
    { "network:\n  egress: [{host: a.b, ports: [1], protocol: rest, access: full, tls: skip}]\n",
      "network.egress[0].tls: rest cannot be inspected" },
    { "network:\n  egress: [{host: a.b, ports: [80], binaries: [curl]}]\n",
      "network.egress[0].binaries[0]: the path" },
    { "network:\n  egress: [{host: a.b, ports: [80], allowed_ips: [10.0.0.0/99]}]\n",
      "network.egress[0].allowed_ips[0]: must be an address" },
    { "network:\n  egress: [{host: a.b, ports: [80], rules: []}]\n",
      "network.egress[0].rules: needs an inspected protocol" },
};

TEST(bad_profiles_say_line_and_field)
{
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct profile *p = NULL;
        struct err e = { 0 };
        char text[512];

        snprintf(text, sizeof text, "id: profile.x\nversion: 1\n%s", bad[i].yaml);
        if (profile_read(str_from(text), &p, &e) >= 0)
            FAIL("accepted: %s", bad[i].yaml);
        if (!strstr(e.msg, bad[i].message))
            FAIL("%s says '%s', not '%s'", bad[i].yaml, e.msg, bad[i].message);
        CHECK(p == NULL);
    }
}

TEST(bad_names_and_versions)
{
    static const struct {
        const char *yaml, *message;
    } rows[] = {
        { "", "expected an object" },
        { "[]", "expected an object" },
        { "version: 1\n", "line 1: id: is required" },
        { "id: profile.x\n", "line 1: version: is required" },
        { "id: x\nversion: 1\n", "line 1: id: must be 'profile.NAME'" },
        { "id: profile.X\nversion: 1\n", "line 1: id: must be 'profile.NAME'" },
        { "id: profile.x\nversion: 0\n", "line 2: version: must be a whole number" },
        { "id: profile.x\nversion: 1.2\n", "line 2: version: expected a whole number" },
        { "id: profile.x\nversion: '1'\n", "line 2: version: expected a whole number" },
        { "id: profile.x\nversion: 1\nid: profile.y\n", "twice" },
        { "id: &a profile.x\nversion: 1\n", "anchors" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct profile *p;
        struct err e = { 0 };

        if (profile_read(str_from(rows[i].yaml), &p, &e) >= 0)
            FAIL("accepted: %s", rows[i].yaml);
        if (!strstr(e.msg, rows[i].message))
            FAIL("%s says '%s', not '%s'", rows[i].yaml, e.msg, rows[i].message);
    }
}

struct told {
    char text[4096];
    size_t used, n;
};

static void on_told(void *user, const struct err *e)
{
    struct told *t = user;

    t->n++;
    t->used += (size_t)snprintf(t->text + t->used, sizeof t->text - t->used, "%s\n", e->msg);
    CHECK(t->used < sizeof t->text);
}

TEST(every_mistake_is_told)
{
    static const char yaml[] = "id: mine\nversion: 0\nttll: 3\nttl:\n  default: soon\n"
                               "  max: 31d\nresources: {cpu: 0}\nuser: '70000'\nworkdir: here\n"
                               "caps: [1, CHOWN]\nnetwork:\n  egress:\n  - ports: [1]\n";
    static const char *const wanted[] = {
        "ttll: no such field", "id: must be",
        "version: must be",    "ttl.default: expected",
        "ttl.max: must be",    "resources.cpu: must be",
        "user: must be",       "workdir: must be",
        "caps[0]: expected",   "network.egress[0].host: is required",
    };
    struct told told = { .n = 0 };
    struct profile *p = NULL;
    struct err e;

    CHECK(profile_read_all(str_from(yaml), &(struct json_mistakes){ on_told, &told }, &p, &e) < 0);
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        if (!strstr(told.text, wanted[i]))
            FAIL("not told: %s, but\n%s", wanted[i], told.text);
    CHECK_INT(told.n, COUNT_OF(wanted));
    CHECK(p == NULL);
}

TEST(a_mistake_that_another_one_caused_is_not_told)
{
    struct told told = { .n = 0 };
    struct profile *p = NULL;
    struct err e;

    CHECK(profile_read_all(STR("id: profile.x\nversion: 1\nttl: {default: 48h, max: soon}\n"),
                           &(struct json_mistakes){ on_told, &told }, &p, &e) < 0);
    CHECK_INT(told.n, 1);
    CHECK(strstr(told.text, "ttl.max: expected a duration"));
}
