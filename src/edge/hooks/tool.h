/* sandboxer-step: whoever takes a step of an untrusted run in place of the command line, which
 * links neither what reads the configuration nor what talks to servers. */
#ifndef STEP_TOOL_H
#define STEP_TOOL_H

int step_tool_main(int argc, char **argv);

#endif
