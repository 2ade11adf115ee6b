/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/own.h"
#include "edge/run_steps/tool_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A stream of events from an MCP server; lines that are no events are messages. An answer comes
 * only after a hello. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct json nothing = { .type = JSON_OBJECT };
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 20), answer = BUF_INIT(1 << 16);
    AUTO(buf_done) struct buf event = BUF_INIT(1 << 16);
    struct tool_call t = { .tool = "look", .question = &nothing, .answer = &answer };
    struct str rest = { (const char *)data, size };

    if (tool_call_begin(&t, &out, NULL) < 0)
        abort();
    while (tool_call_next_event(&rest, &event))
        if (tool_call_receive(&t, buf_str(&event), &out, NULL) < 0)
            return 0;
    if (t.stage == TOOL_CALL_DONE && t.version == MCP_NONE)
        abort();
    return 0;
}
