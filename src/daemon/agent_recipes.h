/* SPDX-License-Identifier: Apache-2.0 */
/* The recipes of agents (domain/agent/recipe.h): those that are compiled in, and the files
 * NAME.yaml of $SANDBOXER_AGENTS (absolute directories separated by ':') or else of
 * /etc/sandboxer/agents and, unless we are root, of $XDG_CONFIG_HOME/sandboxer/agents. A later file
 * replaces an earlier recipe of its name, an invalid one too: then the recipe is listed with the
 * problem. The command line cannot read YAML, so it runs this. */
#ifndef DAEMON_AGENT_RECIPES_H
#define DAEMON_AGENT_RECIPES_H

#include "base/buf.h"

enum { AGENT_RECIPES_MAX = 128, AGENT_RECIPES_BYTES = 16 << 20 };

/* Writes them as a JSON array of entries, by name. */
int agent_recipes_write(struct buf *out, struct err *e);

#endif
