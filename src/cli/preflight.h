/* Before an untrusted program runs: a look at it, which says whether it does. */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/step.h"

/* 0, and who looked and what was found are in ret, on the arena; or -ERR_DENIED, after telling what
 * was found on stderr. */
int preflight(const char *file, struct str text, const struct step_options *o, struct arena *a,
              struct step_answer *ret, struct err *e);

#endif
