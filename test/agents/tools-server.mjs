/** An MCP server over standard input and output with more tools than an agent offers at once, so that it defers them. */
import { createInterface } from 'node:readline';

const tools = Array.from({ length: 40 }, (_, index) => ({
  name: `measure_${index}`,
  description: `Measures quantity number ${index} of the laboratory. ${'It takes a place and answers a number. '.repeat(20)}`,
  inputSchema: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
}));
const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'laboratory', version: '1' },
  }),
  'tools/list': () => ({ tools }),
  'tools/call': () => ({ content: [{ type: 'text', text: '42' }] }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const result = results[method]?.(params ?? {});
  const answer = result === undefined ? { error: { code: -32601, message: 'unknown method' } } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}
