/* The proxy alone, for any program: one box with one listener of ours, a policy file, an audit
 * file.
 */
#ifndef EGRESS_STANDALONE_H
#define EGRESS_STANDALONE_H

#include "egress/options.h"

/* Until SIGTERM or SIGINT. Confines the process. */
int standalone_run(const struct egress_options *o, struct err *e);

#endif
