/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hosts that package managers are configured for, so that a sandbox can be granted access
 * to these hosts only.
 *
 * The configuration comes from an image, so it is untrusted: it is read line by line with limits,
 * and only http and https URLs whose authority is a host with a port are used. Other content is
 * ignored. Names that resolve to addresses that are not public are refused when they are looked up.
 *
 * The operator's own configuration is trusted: it may name a mirror in the operator's network or on
 * this machine. So a caller states the origin of the configuration (enum package_hosts_trust); only
 * the operator's may name addresses that are not public. */
#ifndef DOMAIN_PACKAGE_HOSTS_PACKAGE_HOSTS_H
#define DOMAIN_PACKAGE_HOSTS_PACKAGE_HOSTS_H

#include "base/str.h"
#include "lib/net/host.h"

enum {
    PACKAGE_HOSTS_HOSTS_MAX = 64,       /* of all managers; further hosts are ignored */
    PACKAGE_HOSTS_FILE_MAX = 256 << 10, /* bytes of a file; a longer one is ignored */
    PACKAGE_HOSTS_FILES_MAX = 64,       /* files of a directory */
    PACKAGE_HOSTS_MANAGERS_MAX = 16,
    PACKAGE_HOSTS_ADDRESSES_MAX = 8, /* addresses of a name */
    PACKAGE_HOSTS_TEXT = HOST_MAX + 9 + PACKAGE_HOSTS_ADDRESSES_MAX * ADDRESS_TEXT_MAX,
    /* "[address]:65535", "name:65535=address,address" */
};

/* Which configuration may name loopback, private and other addresses that are not public. */
enum package_hosts_trust {
    PACKAGE_HOSTS_OF_IMAGE,    /* none */
    PACKAGE_HOSTS_OF_CALLER,   /* environment variables */
    PACKAGE_HOSTS_OF_OPERATOR, /* also the files, which are this machine's own */
};

struct package_hosts {
    char hosts[PACKAGE_HOSTS_HOSTS_MAX]
              [PACKAGE_HOSTS_TEXT];    /* "packages.example.org:443", each once */
    bool own[PACKAGE_HOSTS_HOSTS_MAX]; /* named by the operator, not a manager's default */
    size_t n;
    bool trusted_; /* whether the operator wrote the text that is being read */
    const char
        /* managers that were found, but not their hosts; literals */
        *unknown[PACKAGE_HOSTS_MANAGERS_MAX];
    size_t n_unknown;
};

/* Adds the host of an http or https URL. Returns false if it is not such a URL, for an address that
 * is not public or a loopback name (unless the operator's), a metadata service, a port that no
 * policy may grant, or if the list is full. */
bool package_hosts_add_url(struct package_hosts *p, struct str url);

/* Adds every URL among words separated by blanks; true if there is one. */
bool package_hosts_add_words(struct package_hosts *p, struct str words);
/* Adds the hosts of a list in Go's format: "https://one,https://two|direct". */
bool package_hosts_add_proxies(struct package_hosts *p, struct str list);

/* Reads a manager's configuration. True if it names the host that the manager uses first. */
typedef bool package_hosts_fn(struct package_hosts *p, struct str text);

package_hosts_fn package_hosts_read_apt;    /* sources.list: "deb [options] URL suite …" */
package_hosts_fn package_hosts_read_deb822; /* *.sources: "URIs: URL …", unless "Enabled: no" */
package_hosts_fn
    package_hosts_read_list; /* apt's mirrors, apk's repositories: a line each, URL first */
package_hosts_fn package_hosts_read_pip;   /* pip.conf: index-url, extra-index-url, find-links */
package_hosts_fn package_hosts_read_uv;    /* uv.toml: index-url, url */
package_hosts_fn package_hosts_read_npm;   /* npmrc: registry, @scope:registry */
package_hosts_fn package_hosts_read_cargo; /* config.toml: index, registry, replace-with */
package_hosts_fn package_hosts_read_go;    /* go env: GOPROXY */
package_hosts_fn package_hosts_read_gem;   /* gemrc: the items of :sources: */

/* The same for a manager's own program text, which contains its default host. Searches for one
 * place; false if it is not found. */
package_hosts_fn package_hosts_built_in_pip; /* pip/_internal/models/index.py */
package_hosts_fn package_hosts_built_in_npm; /* definitions.js */
package_hosts_fn package_hosts_built_in_go;  /* cmd/go/internal/cfg/cfg.go */
package_hosts_fn package_hosts_built_in_gem; /* rubygems/defaults.rb */

/* Finds the managers below a root directory, which links cannot leave, with the variables that they
 * will see (NULL-terminated, "NAME=VALUE"). Executes nothing of the root. home: absolute path in
 * the root of the user whose files are read besides the system's. NULL if a sandbox will see only
 * the system directories of the root: the hosts in /etc are then added to the managers' defaults
 * instead of replacing them. */
void package_hosts_find(enum package_hosts_trust trust, int root, const char *home,
                        const char *const *env, struct package_hosts *ret);

/* Looks up the operator's names with the rights of this process, for a few seconds at most. A name
 * whose addresses are all not public gets them appended: "mirror.corp:443=10.0.0.5". */
void package_hosts_locate(struct package_hosts *p);

#endif
