// SPDX-License-Identifier: Apache-2.0
// A client of MCP without a model: npm's SDK starts `sandboxer mcp`, lists its tools, and uses four of them.
//
//     npm install @modelcontextprotocol/sdk@1.32.2
//     node mcp-agent.mjs
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const client = new Client({ name: 'example', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command: 'sandboxer', args: ['mcp'], env: process.env }));

// The structured result of a tool. A tool that fails answers with text that says why.
async function call(name, args) {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError)
        throw new Error(result.content.map((part) => part.text).join('\n'));
    return result.structuredContent;
}

const { tools } = await client.listTools();
console.log('sandbox_create is offered:', tools.some((tool) => tool.name === 'sandbox_create'));
const { sandbox_id } = await call('sandbox_create', {});
try {
    await call('sandbox_write', { sandbox_id, path: '/tmp/job.sh', content: 'echo 6 times 7 is $((6 * 7))\n' });
    const done = await call('sandbox_exec', { sandbox_id, command: 'sh /tmp/job.sh' });
    console.log(`exit code ${done.exit_code}, output: ${done.stdout.trim()}`);
} finally {
    await call('sandbox_destroy', { sandbox_id });
    await client.close();
}
