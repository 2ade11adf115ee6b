/* What the files of outlets share. */
#ifndef CONTROL_OUTLET_INSIDE_H
#define CONTROL_OUTLET_INSIDE_H

#include "control/outlet.h"

/* The worker that has it, or will have. */
struct egress_worker *outlet_worker(struct outlet *o);

#endif
