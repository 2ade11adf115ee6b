/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/config/yaml_files.h"

static struct arena arena = ARENA_INIT(8 << 20);

TEST(bad_files_say_file_line_and_field)
{
    static const struct {
        const char *yaml, *message;
    } rows[] = {
        { "[]", "0.yaml: line 1: expected an object" },
        { "a: [", "0.yaml: line " },
        { "nonsense: 1\n", "0.yaml: line 1: nonsense: no such field" },
        { "limits:\n  conections: 1\n", "0.yaml: line 2: limits.conections: no such field" },
        { "limits:\n  connections: 0\n", "0.yaml: line 2: limits.connections: must be" },
        { "limits:\n  body_bytes: much\n", "0.yaml: line 2: limits.body_bytes: expected a size" },
        { "listen: 7700\n", "0.yaml: line 1: listen: expected a string" },
        { "retention: {sandboxes: 2h}\n", "0.yaml: line 1: retention.sandboxes: must be" },
        { "listen: localhost:7700\n", "0.yaml: line 1: listen: must be an address and a port" },
        { "listen: 127.0.0.1\n", "0.yaml: line 1: listen: must be an address" },
        { "listen: 127.0.0.1:0\n", "0.yaml: line 1: listen: must be an address" },
        { "listen: ::1:7700\n", "0.yaml: line 1: listen: must be an address" },
        { "domain: {name: Upper.test}\n", "0.yaml: line 1: domain.name: must be a DNS name" },
        { "domain: {name: a..b}\n", "0.yaml: line 1: domain.name: must be a DNS name" },
        { "domain: {name: ../x}\n", "0.yaml: line 1: domain.name: must be a DNS name" },
        { "domain: {listen: '127.0.0.1:1'}\n", "0.yaml: line 1: domain.listen: needs domain.name" },
        { "domain: {name: a.b, listen: x}\n", "0.yaml: line 1: domain.listen: must be an address" },
        { "domain: {name: a.b, listen: '127.0.0.1:1', key: /k}\n",
          "domain.certificate: must be set" },
        { "socket:\n  path: here.sock\n", "0.yaml: line 2: socket.path: must be an absolute" },
        { "socket:\n  mode: 0660\n", "0.yaml: line 2, column 9: a number must not start with 0" },
        { "socket:\n  mode: '0999'\n", "0.yaml: line 2: socket.mode: must be octal digits" },
        { "socket:\n  mode: '4755'\n", "0.yaml: line 2: socket.mode: must be octal digits" },
        { "socket:\n  group: 'a b'\n", "0.yaml: line 2: socket.group: must be a group's" },
        { "state: /\n", "0.yaml: line 1: state: must be an absolute path" },
        { "state: /a/../b\n", "0.yaml: line 1: state: must be an absolute path" },
        { "trust:\n  bundle: policy.yaml\n", "0.yaml: line 2: trust.bundle: must be an absolute" },
        { "secrets:\n  key_file: /a//b\n",
          "0.yaml: line 2: secrets.key_file: must be an absolute" },
        { "user: -x\n", "0.yaml: line 1: user: must be a user's name" },
        { "hub:\n  url: ftp://x\n", "0.yaml: line 2: hub.url: must be an http://" },
        { "hub:\n  url: https://\n", "0.yaml: line 2: hub.url: must be an http://" },
        { "hub:\n  url: https://me:secret@x/\n", "0.yaml: line 2: hub.url: must be an http://" },
        { "hub:\n  headers_file: secrets\n", "0.yaml: line 2: hub.headers_file: must be" },
        { "log:\n  level: loud\n", "0.yaml: line 2: log.level: expected one of: error, warn" },
        { "profiles:\n  dirs:\n  - /a\n  - b\n", "0.yaml: line 4: profiles.dirs[1]: must be" },
        { "workspaces:\n  roots: [/]\n", "0.yaml: line 2: workspaces.roots[0]: must be an abs" },
        { "pool:\n  total_max: 5000\n",
          "0.yaml: line 2: pool.total_max: must not be more than limits.sandboxes_max, which is" },
        { "ttl:\n  max: 0\n", "0.yaml: line 2: ttl.max: must be a duration" },
        { "host: build1\n", "0.yaml: line 1: host: there is no host 'build1'" },
        { "hosts:\n- name: a\n", "0.yaml: line 2: hosts[0].address: is required" },
        { "hosts:\n- {name: A, address: a}\n", "0.yaml: line 2: hosts[0].name: must be labels" },
        { "hosts:\n- {name: local, address: a}\n",
          "line 2: hosts[0].name: the host name 'local' is already" },
        { "hosts:\n- {name: a, address: a}\n- {name: a, address: b}\n",
          "0.yaml: line 3: hosts[1].name: the host name 'a' is already in use" },
        { "hosts:\n- {name: a, address: -oProxyCommand=x}\n",
          "0.yaml: line 2: hosts[0].address: must be a destination" },
        { "hub:\n  headers_file: t\n", "0.yaml: line 2: hub.headers_file: must be" },
        { "trust:\n  self_approval: true\nlisten: 127.0.0.1:7700\n",
          "0.yaml: line 2: trust.self_approval: is for a daemon that only its own user can reach, "
          "and listen (--listen) lets others in" },
        { "trust: {self_approval: true}\ndomain: {name: a.b, listen: '127.0.0.1:1'}\n",
          "trust.self_approval: is for a daemon that only its own user can reach, and "
          "domain.listen" },
        { "trust: {self_approval: true}\nsocket: {mode: '0660'}\n",
          "trust.self_approval: is for a daemon that only its own user can reach, and "
          "socket.mode" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(yaml_files_done) struct yaml_files f = { 0 };
        struct config c = { .state = "untouched" };
        struct sources s;
        struct err e = { 0 };

        yaml_files_make(&f);
        yaml_files_add(&f, rows[i].yaml);
        s = yaml_files_sources(&f);
        if (sources_load(&s, &c, &arena, &e) >= 0)
            FAIL("accepted: %s", rows[i].yaml);
        if (!strstr(e.msg, rows[i].message))
            FAIL("%s says '%s', not '%s'", rows[i].yaml, e.msg, rows[i].message);
        CHECK_STR(str_from(c.state), "untouched");
    }
}

TEST(addresses)
{
    struct config_address a;
    struct err e;

    CHECK_OK(config_address_read(STR(CONFIG_LISTEN_DEFAULT), &a, &e), e);
    CHECK_STR(str_from(a.ip), "127.0.0.1");
    CHECK_INT(a.port, 7700);
    CHECK_OK(config_address_read(STR("[2001:db8::1]:80"), &a, &e), e);
    CHECK_STR(str_from(a.ip), "2001:db8::1");
    CHECK_INT(config_address_read(STR(""), &a, &e), -ERR_INVALID);
    CHECK_INT(config_address_read(STR(":"), &a, &e), -ERR_INVALID);
    CHECK_INT(config_address_read(STR("[127.0.0.1]:80"), &a, &e), -ERR_INVALID);
    CHECK_INT(config_address_read(STR("127.0.0.1:65536"), &a, &e), -ERR_INVALID);
}

TEST(self_approval_is_for_a_daemon_without_tenants)
{
    struct config c = { .trust = { .self_approval = true }, .socket_mode = 0600 };
    struct err e = { 0 };

    CHECK_OK(config_self_approval_check(&c, &e), e);
    c.inherited_open = true;
    CHECK_INT(config_self_approval_check(&c, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "LISTEN_FDS"));
    c.trust.self_approval = false;
    CHECK_OK(config_self_approval_check(&c, &e), e);
}
