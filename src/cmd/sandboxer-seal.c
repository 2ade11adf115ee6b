/* Hashes, signs and verifies what a run has produced. */
#include "seal/tool.h"

int main(int argc, char **argv)
{
    return seal_tool_main(argc, argv);
}
