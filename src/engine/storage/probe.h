/* Whether things that depend on file system, kernel and user work: tried, not guessed. */
#ifndef UPPERS_TRIAL_H
#define UPPERS_TRIAL_H

#include "base/err.h"

/* Whether files in this directory share blocks. */
int trial_reflink(int dir, struct err *e);
/* Whether overlayfs takes directories in it to write to, as a sandbox of ours would. */
int trial_overlay(int dir, struct err *e);

#endif
