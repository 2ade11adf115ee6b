// SPDX-License-Identifier: Apache-2.0
// An agent of OpenAI's Agents SDK whose tools are those of `sandboxer mcp`: it makes its own sandbox, and the daemon's policy
// decides on its calls.
//
//     npm install @openai/agents@0.20.0
//     OPENAI_API_KEY=… node openai-agents.mjs 'What is 6 times 7?'
import { Agent, MCPServerStdio, run, setOpenAIAPI, setTracingDisabled } from '@openai/agents';

setOpenAIAPI('chat_completions'); // the form that most other model servers have, too
setTracingDisabled(true);

const server = new MCPServerStdio({ name: 'sandboxer', command: 'sandboxer', args: ['mcp'], env: process.env });
await server.connect();
try {
    const agent = new Agent({
        name: 'example',
        instructions: 'Create a sandbox, run commands in it, and destroy it when you have the answer.',
        model: process.env.MODEL ?? 'gpt-5-mini',
        mcpServers: [server],
    });
    const result = await run(agent, process.argv[2] ?? 'What is 6 times 7? Compute it in the sandbox.');
    console.log(result.finalOutput);
} finally {
    await server.close();
}
