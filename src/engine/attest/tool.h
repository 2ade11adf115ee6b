/* SPDX-License-Identifier: Apache-2.0 */
/* sandboxer-seal: hashes and signs for the command line, which links no cryptography. */
#ifndef ENGINE_ATTEST_TOOL_H
#define ENGINE_ATTEST_TOOL_H

int attest_tool_main(int argc, char **argv);

#endif
