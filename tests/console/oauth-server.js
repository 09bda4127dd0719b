// An MCP server that requires a token, and its authorization server, at one origin. The origin is
// localhost, which is another site than 127.0.0.1: the browser returns to the console from another site.
import { createHash, randomUUID } from "node:crypto";
import { createServer } from "node:http";

const PROTOCOL_VERSION = "2025-06-18";

function respondToMessage(message) {
  switch (message.method) {
    case "initialize":
      return { protocolVersion: PROTOCOL_VERSION, capabilities: { tools: {} }, serverInfo: { name: "far", version: "1" } };
    case "tools/list":
      return { tools: [{ name: "hello", inputSchema: { type: "object" } }] };
    default:
      return {};
  }
}

/** Starts the server. Returns its URL, its issuer, its token requests and a function that stops it. */
export async function startOAuthServer() {
  const challenges = new Map();
  const tokens = new Set();
  const tokenRequests = [];
  let issuer;
  function sendJson(response, status, value, headers = {}) {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
  }
  function sendMetadata(response) {
    sendJson(response, 200, {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      registration_endpoint: `${issuer}/register`,
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      authorization_response_iss_parameter_supported: true,
    });
  }
  function showConsentPage(response, parameters) {
    const code = randomUUID();
    challenges.set(code, parameters.get("code_challenge"));
    const link = (outcome) => {
      const url = new URL(parameters.get("redirect_uri"));
      for (const [name, value] of Object.entries({ ...outcome, state: parameters.get("state"), iss: issuer })) url.searchParams.set(name, value);
      return url.href.replaceAll("&", "&amp;");
    };
    response.writeHead(200, { "content-type": "text/html" });
    response.end(`<!DOCTYPE html><title>Consent</title><a href="${link({ code })}">Allow</a> <a href="${link({ error: "access_denied" })}">Deny</a>`);
  }
  function sendToken(response, form) {
    tokenRequests.push(Object.fromEntries(form));
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (challenges.get(form.get("code")) !== challenge) return sendJson(response, 400, { error: "invalid_grant" });
    challenges.delete(form.get("code"));
    const token = `hush-${randomUUID()}`;
    tokens.add(token);
    return sendJson(response, 200, { access_token: token, token_type: "Bearer", expires_in: 3600, refresh_token: "hush-refresh" });
  }
  function serveMcp(request, response, body) {
    const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
    if (!tokens.has(token)) {
      const challenge = `Bearer resource_metadata="${issuer}/.well-known/oauth-protected-resource/mcp"`;
      return sendJson(response, 401, { error: "invalid_token" }, { "www-authenticate": challenge });
    }
    const message = body === "" ? {} : JSON.parse(body);
    if (message.id === undefined) return response.writeHead(request.method === "POST" ? 202 : 405).end();
    return sendJson(response, 200, { jsonrpc: "2.0", id: message.id, result: respondToMessage(message) });
  }
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const url = new URL(request.url, issuer);
    switch (url.pathname) {
      case "/mcp":
        return serveMcp(request, response, body);
      case "/.well-known/oauth-protected-resource/mcp":
        return sendJson(response, 200, { resource: `${issuer}/mcp`, authorization_servers: [issuer] });
      case "/.well-known/oauth-authorization-server":
        return sendMetadata(response);
      case "/register":
        return sendJson(response, 201, { ...JSON.parse(body), client_id: randomUUID() });
      case "/authorize":
        return showConsentPage(response, url.searchParams);
      case "/token":
        return sendToken(response, new URLSearchParams(body));
      default:
        return response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, resolve));
  issuer = `http://localhost:${server.address().port}`;
  return {
    url: `${issuer}/mcp`,
    issuer,
    tokenRequests,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
