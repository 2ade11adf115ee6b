/* The hosts that package managers are configured for, so that a sandbox may be let to them and
 * nowhere else.
 *
 * Configuration is whatever an image holds, so it is read as hostile: bounded, line by line, and
 * nothing counts but http and https URLs whose authority is a host and a port. What else a line
 * says is passed over. Names that lead to places that are not public are refused where they are
 * looked up.
 *
 * What the operator has written is another matter: a mirror of the operator's own network, or of
 * this machine, may be meant. So a caller says whose words it reads (enum packages_trust), and only
 * those of the operator count for addresses that are not public. */
#ifndef PACKAGES_PACKAGES_H
#define PACKAGES_PACKAGES_H

#include "base/str.h"
#include "net/host.h"

enum {
    PACKAGES_HOSTS_MAX = 64,       /* of all managers together; further ones are left out */
    PACKAGES_FILE_MAX = 256 << 10, /* bytes of a file; a longer one is passed over */
    PACKAGES_FILES_MAX = 64,       /* of a directory of them */
    PACKAGES_MANAGERS_MAX = 16,
    PACKAGES_ADDRESSES_MAX = 8, /* of a name */
    PACKAGES_TEXT = HOST_MAX + 9 + PACKAGES_ADDRESSES_MAX * ADDRESS_TEXT_MAX,
    /* "[address]:65535", "name:65535=address,address" */
};

/* Whose words may name loopback, private and other addresses that are not public. */
enum packages_trust {
    PACKAGES_OF_IMAGE,    /* nobody's */
    PACKAGES_OF_CALLER,   /* those of the variables */
    PACKAGES_OF_OPERATOR, /* also those of the files, which are this machine's own */
};

struct packages {
    char hosts[PACKAGES_HOSTS_MAX][PACKAGES_TEXT]; /* "packages.example.org:443", each once */
    bool own[PACKAGES_HOSTS_MAX]; /* the operator's words, not a program's own default */
    size_t n;
    bool trusted_;                              /* whether what is read now is the operator's */
    const char *unknown[PACKAGES_MANAGERS_MAX]; /* managers that are there, but nothing says where
                                                   they look; literals */
    size_t n_unknown;
};

/* The host of an http or https URL; false if it is none, if it is an address that is not public or
 * a name of loopback (unless the operator's), a metadata service or a port that nobody may reach,
 * or if there is no room. */
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
void packages_find_for(enum packages_trust trust, int root, const char *home,
                       const char *const *env, struct packages *ret);

/* Looks up the operator's names, with this process's own rights and for a few seconds at most. One
 * all of whose addresses are not public gets them behind it: "mirror.corp:443=10.0.0.5". */
void packages_locate(struct packages *p);
/* The same for one name whose addresses are known; false: it stays as it is. */
bool packages_put_at(struct packages *p, size_t i, const struct address *list, size_t n);

#endif
