/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes, signs and verifies what a run has produced. */
#include "engine/attest/tool.h"

int main(int argc, char **argv)
{
    return attest_tool_main(argc, argv);
}
