// SPDX-License-Identifier: Apache-2.0
// An agent without a framework: npm's `e2b`, unchanged, and any model API of OpenAI's form. The model asks for commands, the
// sandbox runs them, and the model reads their output.
//
//     npm install e2b@2.51.0
//     key=$(sandboxer token create --e2b) && eval "$key"
//     OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_API_KEY=none MODEL=qwen3 node e2b-agent.mjs 'What is 6 times 7?'
import { Sandbox } from 'e2b';

const STEPS_MAX = 8;
const tools = [{
    type: 'function',
    function: {
        name: 'run_command',
        description: 'Runs a command of the shell in a sandbox and returns its output and its exit status.',
        parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'], additionalProperties: false },
    },
}];

async function ask(messages) {
    const answer = await fetch(`${process.env.OPENAI_BASE_URL ?? 'https://api.openai.com/v1'}/chat/completions`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
        body: JSON.stringify({ model: process.env.MODEL ?? 'gpt-5-mini', messages, tools }),
    });
    if (!answer.ok)
        throw new Error(`the model API answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()).choices[0].message;
}

// A command that fails is an answer for the model, too.
async function run(sandbox, call) {
    const { command } = JSON.parse(call.function.arguments);
    const done = await sandbox.commands.run(command, { timeoutMs: 60_000 }).catch((e) => e);
    return { role: 'tool', tool_call_id: call.id, content: `${done.stdout ?? ''}${done.stderr ?? done}\nexit status ${done.exitCode ?? 'unknown'}` };
}

const messages = [{ role: 'user', content: process.argv[2] ?? 'What is 6 times 7? Compute it in the sandbox.' }];
const sandbox = await Sandbox.create({ timeoutMs: 300_000 });
try {
    for (let step = 0; step < STEPS_MAX; step++) {
        const message = await ask(messages);
        messages.push(message);
        if (!message.tool_calls?.length) {
            console.log(message.content);
            break;
        }
        for (const call of message.tool_calls)
            messages.push(await run(sandbox, call));
    }
} finally {
    await sandbox.kill();
}
