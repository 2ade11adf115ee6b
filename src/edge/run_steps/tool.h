/* SPDX-License-Identifier: Apache-2.0 */
/* sandboxer-step: runs an external check for the command line, which links neither the reader of
 * the configuration nor an HTTP client. */
#ifndef EDGE_HOOKS_TOOL_H
#define EDGE_HOOKS_TOOL_H

int step_tool_main(int argc, char **argv);

#endif
