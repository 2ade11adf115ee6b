/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of the readers. */
#ifndef DOMAIN_PACKAGE_HOSTS_INTERNAL_H
#define DOMAIN_PACKAGE_HOSTS_INTERNAL_H

#include "domain/package_hosts/package_hosts.h"

/* Adds every URL among words separated by blanks; true if there is one. */
bool package_hosts_add_words(struct package_hosts *p, struct str words);
/* Adds the hosts of a list in Go's format: "https://one,https://two|direct". */
bool package_hosts_add_proxies(struct package_hosts *p, struct str list);

#endif
