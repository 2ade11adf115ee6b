/* sandboxer-seal: what the command line, which links no cryptography, has done by another program.
 */
#ifndef SEAL_TOOL_H
#define SEAL_TOOL_H

int seal_tool_main(int argc, char **argv);

#endif
