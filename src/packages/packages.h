/* The hosts that package managers are configured for, so that a sandbox may be let to them and
 * nowhere else.
 *
 * Configuration is whatever an image holds, so it is read as hostile: bounded, line by line, and
 * nothing counts but http and https URLs whose authority is a host and a port. What else a line
 * says is passed over. Names that lead to places that are not public are refused where they are
 * looked up. */
#ifndef PACKAGES_PACKAGES_H
#define PACKAGES_PACKAGES_H

#include "base/str.h"
#include "net/host.h"

enum {
    PACKAGES_HOSTS_MAX = 64,       /* of all managers together; further ones are left out */
    PACKAGES_FILE_MAX = 256 << 10, /* bytes of a file; a longer one is passed over */
    PACKAGES_FILES_MAX = 64,       /* of a directory of them */
    PACKAGES_MANAGERS_MAX = 16,
    PACKAGES_TEXT = HOST_MAX + 9, /* "[address]:65535" */
};

struct packages {
    char hosts[PACKAGES_HOSTS_MAX][PACKAGES_TEXT]; /* "packages.example.org:443", each once */
    size_t n;
    const char *unknown[PACKAGES_MANAGERS_MAX]; /* managers that are there, but nothing says where
                                                   they look; literals */
    size_t n_unknown;
};

/* The host of an http or https URL; false if it is none, if it is an address that is not public, a
 * metadata service or a port that nobody may reach, or if there is no room. */
bool packages_add_url(struct packages *p, struct str url);

/* A manager's configuration. True if it names where the manager looks first. */
typedef bool packages_fn(struct packages *p, struct str text);

packages_fn packages_read_apt;    /* sources.list: "deb [options] URL suite …" */
packages_fn packages_read_deb822; /* *.sources: "URIs: URL …", unless "Enabled: no" */
packages_fn packages_read_list;   /* apt's mirrors, apk's repositories: a line each, URL first */
packages_fn packages_read_pip;    /* pip.conf: index-url, extra-index-url, find-links */
packages_fn packages_read_uv;     /* uv.toml: index-url, url */
packages_fn packages_read_npm;    /* npmrc: registry, @scope:registry */
packages_fn packages_read_cargo;  /* config.toml: index, registry, replace-with */
packages_fn packages_read_go;     /* go env: GOPROXY */
packages_fn packages_read_gem;    /* gemrc: the items of :sources: */

/* The same of a manager's own program text, which says where it looks if nobody tells it. It is
 * searched for one place; where that is not found, false. */
packages_fn packages_built_in_pip; /* pip/_internal/models/index.py */
packages_fn packages_built_in_npm; /* definitions.js */
packages_fn packages_built_in_go;  /* cmd/go/internal/cfg/cfg.go */
packages_fn packages_built_in_gem; /* rubygems/defaults.rb */

/* The managers below a root directory, which no link leads out of, with the variables that they
 * will see (NULL-terminated, "NAME=VALUE"). Nothing of the root is executed. home: whose files
 * count besides the system's, an absolute path in it. NULL if a sandbox will see only system
 * directories of the root: then what /etc says is added to what managers were built with, instead
 * of taking its place. */
void packages_find(int root, const char *home, const char *const *env, struct packages *ret);

#endif
