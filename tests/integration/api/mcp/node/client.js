// Calls tools of an MCP server with the SDK for Node: node client.js URL KEY http|sse
// Reads calls from standard input, a JSON [name, wallet] a line, and writes a JSON line for each.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, kind] = process.argv.slice(2);
const options = { requestInit: { headers: { "x-api-key": key } } };
const transport =
  kind === "sse"
    ? new SSEClientTransport(new URL(`${url}/mcp/sse`), {
        ...options,
        eventSourceInit: {
          fetch: (to, init) =>
            fetch(to, { ...init, headers: { ...init.headers, "x-api-key": key } }),
        },
      })
    : new StreamableHTTPClientTransport(new URL(`${url}/mcp`), options);
const client = new Client({ name: "soltape-tests", version: "1.0.0" });
const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

try {
  await client.connect(transport);
} catch (error) {
  write({ refused: String(error.message ?? error) });
  process.exit(0);
}
const { tools } = await client.listTools(); // compiles the schemas that answers are held to
const { resources } = await client.listResources();
write({ tools: tools.map((tool) => tool.name), resources: resources.map((each) => each.uri) });
for await (const line of createInterface({ input: process.stdin })) {
  const [name, wallet] = JSON.parse(line);
  write(await client.callTool({ name, arguments: { wallet } }));
}
await client.close();
process.exit(0);
