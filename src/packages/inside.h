/* What the readers of this module share. */
#ifndef PACKAGES_INSIDE_H
#define PACKAGES_INSIDE_H

#include "packages/packages.h"

/* Every URL among words between blanks; true if there is any. */
bool packages_add_words(struct packages *p, struct str words);
/* Those of a list as Go has it: "https://one,https://two|direct". */
bool packages_add_proxies(struct packages *p, struct str list);

#endif
