/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/relays.h"

void relay_begin(const struct relay_start *s)
{
    if (s->lease->decision.match.protocol == EGRESS_TCP)
        relay_tcp(s);
    else
        relay_http(s);
}
