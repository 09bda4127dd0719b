// Reads every list of an MCP server with the npm client @modelcontextprotocol/sdk, and calls tools.
//
// lists.cjs URL [TOOL...]: prints one line of JSON, like python/lists.py. Exits with an error if the
// client cannot read a response.
"use strict";

globalThis.crypto ??= require("node:crypto").webcrypto;

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function main(url, tools) {
  const client = new Client({ name: "lists", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const names = (entries) => entries.map((entry) => entry.name);
  const lists = {
    client: "npm",
    tools: names((await client.listTools()).tools),
    resources: names((await client.listResources()).resources),
    prompts: names((await client.listPrompts()).prompts),
    templates: names((await client.listResourceTemplates()).resourceTemplates),
    calls: {},
  };
  for (const name of tools) {
    const result = await client.callTool({ name, arguments: {} });
    lists.calls[name] = {
      text: result.content.map((block) => block.text ?? null),
      structured: result.structuredContent ?? null,
      failed: result.isError ?? false,
    };
  }
  console.log(JSON.stringify(lists));
  await client.close();
}

main(process.argv[2], process.argv.slice(3)).catch((error) => {
  console.error(error);
  process.exit(1);
});
