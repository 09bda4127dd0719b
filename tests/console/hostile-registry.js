// An MCP registry with two pages of servers, some of which try to attack the reader or the sidecar.
import { createServer } from "node:http";

const attacks = "<script>globalThis.attacked = true</script><img src=x onerror='attacked=true'> \u202eevil\u202c zero\u200bwidth";
const long = "&".repeat(500);
const official = (status = "active") => ({ "io.modelcontextprotocol.registry/official": { status, publishedAt: "2026-01-02T03:04:05Z", isLatest: true } });

function entries(mcpUrl) {
  return [
    {
      server: {
        name: "io.github.ada/weather",
        title: "Weather",
        description: "Forecasts for every city",
        version: "1.1.0",
        repository: { url: "https://github.com/ada/weather", source: "github" },
        remotes: [{ type: "streamable-http", url: mcpUrl, headers: [{ name: "X-Api-Key", description: attacks, isRequired: true, isSecret: true }] }],
        packages: [{ registryType: "npm", identifier: "@ada/weather", version: "1.1.0", runtimeHint: "npx", transport: { type: "stdio" } }],
      },
      _meta: official(),
    },
    {
      server: {
        name: "com.attacker/attack",
        title: attacks,
        description: attacks,
        version: "1.0.0",
        websiteUrl: "javascript:attacked=true",
        repository: { url: "javascript:attacked=true" },
        remotes: [
          { type: "streamable-http", url: "javascript:attacked=true" },
          { type: "sse", url: "https://169.254.169.254/latest" },
          { type: "streamable-http", url: "https://a.example/", headers: [{ name: "Host", value: "b.example" }] },
        ],
        packages: [
          { registryType: "npm", identifier: "--call=id", version: "1.0.0" },
          { registryType: "oci", identifier: "<script>attacked=true</script>", version: "1.0.0" },
        ],
      },
      _meta: official("deprecated"),
    },
    { server: { name: "no namespace", version: "1.0.0" } },
    { server: { name: "com.example/notes", description: "Notes", version: "0.1.0", remotes: [{ type: "sse", url: mcpUrl }] } },
    { server: { name: "com.example/removed", version: "1.0.0", remotes: [{ type: "sse", url: mcpUrl }] }, _meta: official("deleted") },
    {
      server: {
        name: "com.attacker/heavy",
        title: long,
        description: long,
        version: long.slice(0, 100),
        websiteUrl: long,
        repository: { url: long },
        remotes: Array.from({ length: 9 }, () => ({ type: long, url: `https://a.example/?${long}` })),
        packages: Array.from({ length: 9 }, () => ({ registryType: long, identifier: long, version: long })),
      },
    },
  ];
}

/** Starts the registry; `mcpUrl` is the URL of the MCP server that it lists. */
export async function startHostileRegistry(mcpUrl) {
  const all = entries(mcpUrl);
  const requests = [];
  const respond = ({ pathname, searchParams }) => {
    const [, version, servers, name, versions, requestedVersion] = pathname.split("/").map(decodeURIComponent);
    if (version !== "v0.1" || servers !== "servers") return undefined;
    if (name === undefined) {
      const search = searchParams.get("search") ?? "";
      const found = all.filter(({ server }) => server.name.includes(search));
      const page = searchParams.get("cursor") === "page:2" ? found.slice(3) : found.slice(0, 3);
      const hasNext = searchParams.get("cursor") === null && found.length > 3;
      return { servers: page, metadata: { count: page.length, ...(hasNext ? { nextCursor: "page:2" } : {}) } };
    }
    const found = all.find(({ server }) => server.name === name);
    if (found === undefined || versions !== "versions") return undefined;
    if (requestedVersion === undefined) {
      return { servers: [found, { server: { name, version: "0.9.0", description: "An old version" } }], metadata: { count: 2 } };
    }
    if (requestedVersion === "0.9.0") return { server: { name, version: "0.9.0", description: "An old version" } };
    return requestedVersion === "latest" || requestedVersion === found.server.version ? found : undefined;
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://registry");
    requests.push(url.pathname + url.search);
    const body = respond(url);
    response.writeHead(body === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(body ?? { title: attacks }));
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address();
  return {
    url: `http://127.0.0.1:${port}`,
    /** The paths and queries of all requests. */
    requests,
    /** Refuses connections until `restart`. */
    stop: () =>
      new Promise((resolve) => {
        if (!server.listening) {
          resolve();
          return;
        }
        server.close(resolve);
        server.closeAllConnections();
      }),
    restart: () => listen(port),
  };
}
