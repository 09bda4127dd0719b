// An MCP server whose tools a test can change.
import { createServer } from "node:http";

/** Starts the server. Returns its URL, its tools, which may be replaced, and a function that stops it. */
export async function startChangingServer(tools) {
  const state = { tools };
  const respond = ({ method, params }) => {
    switch (method) {
      case "initialize":
        return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "notes", version: "1.0.0" } };
      case "tools/list":
        return { tools: state.tools };
      case "tools/call":
        return { content: [{ type: "text", text: `${params.name} has run.` }] };
      default:
        return {};
    }
  };
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const message = body === "" ? {} : JSON.parse(body);
    if (message.id === undefined) {
      response.writeHead(request.method === "POST" ? 202 : 405).end();
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: respond(message) }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(state, { url: `http://127.0.0.1:${server.address().port}/mcp`, stop: () => server.close() });
}
