// SPDX-License-Identifier: Apache-2.0
// An agent of LangChain's with one tool, which runs commands in a sandbox through npm's `e2b`.
//
//     npm install @langchain/langgraph@1.1.4 @langchain/openai@1.6.0 @langchain/core@1.2.13 e2b@2.51.0 zod@4.6.7
//     key=$(sandboxer token create --e2b) && eval "$key"
//     OPENAI_API_KEY=… node langchain-agent.mjs 'What is 6 times 7?'
import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { Sandbox } from 'e2b';
import { z } from 'zod';

const sandbox = await Sandbox.create({ timeoutMs: 300_000 });
const runCommand = tool(
    async ({ command }) => {
        const done = await sandbox.commands.run(command, { timeoutMs: 60_000 }).catch((e) => e);
        return `${done.stdout ?? ''}${done.stderr ?? done}\nexit status ${done.exitCode ?? 'unknown'}`;
    },
    {
        name: 'run_command',
        description: 'Runs a command of the shell in a sandbox and returns its output and its exit status.',
        schema: z.object({ command: z.string() }),
    },
);

try {
    const llm = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-5-mini', configuration: { baseURL: process.env.OPENAI_BASE_URL } });
    const agent = createReactAgent({ llm, tools: [runCommand] });
    const content = process.argv[2] ?? 'What is 6 times 7? Compute it in the sandbox.';
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content }] });
    console.log(messages.at(-1).content);
} finally {
    await sandbox.kill();
}
