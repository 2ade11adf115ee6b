/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of Daytona's API, for its routes and for the tool policy. */
#ifndef EDGE_CORE_DAYTONA_PATHS_H
#define EDGE_CORE_DAYTONA_PATHS_H

#define DAYTONA          "/daytona"
#define DAYTONA_TOOLBOX  DAYTONA "/toolbox"
#define DAYTONA_ONE      DAYTONA "/sandbox/{id}"
#define DAYTONA_INSIDE   DAYTONA_TOOLBOX "/{id}"
#define DAYTONA_ANY_PORT DAYTONA "/preview/(a port of a sandbox)"

#endif
