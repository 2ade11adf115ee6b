/* SPDX-License-Identifier: Apache-2.0 */
/* Has a step around an untrusted run taken by a command or an MCP server. */
#include "edge/run_steps/tool.h"

int main(int argc, char **argv)
{
    return step_tool_main(argc, argv);
}
