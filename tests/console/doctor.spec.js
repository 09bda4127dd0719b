// The diagnosis of the connection with an MCP server: each stage, and what helps after a failure.
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { promisify } from "node:util";
import AxeBuilder from "@axe-core/playwright";
import { READER, expect, signIn, test as tcpTest } from "./tcp.js";
import { test } from "./sidecar.js";

const SECRET = "hush-header-value";

/** Starts an HTTP server on a free port. Returns its port and a function that stops it. */
async function startServer(respond) {
  const server = createServer(respond);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { port: server.address().port, stop };
}

/** Starts a server that requires a token, and repeats the received header `X-Key` in its challenge. */
function startGuardedServer({ hasMetadata }) {
  return startServer((request, response) => {
    const origin = `http://${request.headers.host}`;
    if (hasMetadata && request.url.startsWith("/.well-known/oauth-protected-resource")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ resource: `${origin}/mcp`, authorization_servers: ["https://login.example"] }));
      return;
    }
    if (request.url.startsWith("/.well-known/")) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(401, { "www-authenticate": `Bearer realm="tools ${request.headers["x-key"] ?? ""}"` });
    response.end("<script>globalThis.attacked = true</script>");
  });
}

/** Adds a server with a URL, disabled, so that only the diagnosis connects with it. */
async function addServer(sidecar, name, url, ...options) {
  const args = ["servers", "add", name, "--url", url, "--disabled", ...options, "--socket", sidecar.socket];
  await promisify(execFile)(process.env.PILLION, args);
}

async function openDoctor(page, sidecar, name) {
  await page.goto(await sidecar.openConsole("--user", "ada"));
  await page.waitForURL("**/console/home");
  await page.goto(new URL(`/console/servers/${name}/doctor`, page.url()).href);
}

/** Runs the diagnosis of a server. */
async function diagnose(page, sidecar, name) {
  await openDoctor(page, sidecar, name);
  await page.getByRole("button", { name: "Diagnose the connection" }).click();
  await expect(page.locator("#diagnosis")).toBeVisible({ timeout: 40_000 });
}

/** Returns the row of a step of the report. */
function step(page, title) {
  return page.locator("#diagnosis tbody tr").filter({ has: page.getByRole("rowheader", { name: title, exact: true }) });
}

/** Expects that a step has failed and every later step was skipped. */
async function expectFailure(page, title) {
  await expect(step(page, title).locator(".badge")).toHaveText("failed");
  await expect(page.locator("main .notice")).toContainText(`${title} failed`);
  const badges = await page.locator("#diagnosis .badge").allTextContents();
  const later = badges.slice(badges.indexOf("failed") + 1);
  expect(later.filter((badge) => badge !== "skipped")).toEqual([]);
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });
    const suffix = javaScriptEnabled ? "a" : "b";

    test("all steps of a program succeed", async ({ page, sidecar }) => {
      await diagnose(page, sidecar, "everything");
      await expect(page.locator("main .notice")).toContainText("The connection works");
      expect(await page.locator("#diagnosis .badge").allTextContents()).toEqual(["ok", "ok", "ok", "ok", "ok"]);
      await expect(step(page, "Handshake and protocol revision")).toContainText("protocol revision is");
      await expect(step(page, "Tool list")).toContainText("tools");
      await expect(page.getByRole("button", { name: "Diagnose again" })).toBeVisible();
    });

    test("the text of a server with a URL is shown as text", async ({ page, sidecar }) => {
      await diagnose(page, sidecar, "hostile");
      await expect(page.locator("main .notice")).toContainText("The connection works");
      await expect(step(page, "HTTP and transport")).toContainText("streamable_http");
      await expect(step(page, "TLS").locator(".badge")).toHaveText("not applicable");
      await expect(step(page, "Handshake and protocol revision")).toContainText("<script>");
      await expect(step(page, "Tool list")).toContainText("with hidden text");
      expect((await page.content()).length).toBeLessThan(60 * 1024);
      await expect(page.locator("form[action*='attacker']")).toHaveCount(0);
      if (javaScriptEnabled) expect(await page.evaluate(() => globalThis.attacked)).toBeUndefined();
    });

    test("a closed port fails at the TCP connection", async ({ page, sidecar }) => {
      const { port, stop } = await startServer(() => {});
      await stop();
      await addServer(sidecar, `closed-${suffix}`, `http://127.0.0.1:${port}/mcp`);
      await diagnose(page, sidecar, `closed-${suffix}`);
      await expectFailure(page, "TCP connection");
      await expect(step(page, "Configuration")).toContainText("The server is disabled");
      await expect(step(page, "TCP connection")).toContainText("No program listens on this port");
      await expect(step(page, "TCP connection")).toContainText(`127.0.0.1:${port}`);
    });

    test("an unknown host fails at the name resolution", async ({ page, sidecar }) => {
      test.skip(Boolean(process.env.HTTPS_PROXY || process.env.https_proxy || process.env.ALL_PROXY || process.env.all_proxy), "a proxy resolves the name");
      await addServer(sidecar, `unknown-${suffix}`, "https://mcp.invalid/mcp");
      await diagnose(page, sidecar, `unknown-${suffix}`);
      await expectFailure(page, "Name resolution");
      await expect(step(page, "Name resolution")).toContainText("DNS server");
    });

    test("a server without TLS fails at the TLS handshake", async ({ page, sidecar }) => {
      const { port, stop } = await startServer((request, response) => response.end());
      await addServer(sidecar, `plain-${suffix}`, `https://127.0.0.1:${port}/mcp`);
      await diagnose(page, sidecar, `plain-${suffix}`);
      await stop();
      await expectFailure(page, "TLS");
      await expect(step(page, "TLS")).toContainText("does not use TLS on this port");
    });

    test("a server that does not respond fails in time", async ({ page, sidecar }) => {
      const { port, stop } = await startServer(() => {});
      await addServer(sidecar, `silent-${suffix}`, `http://127.0.0.1:${port}/mcp`, "--timeout-ms", "1000");
      await diagnose(page, sidecar, `silent-${suffix}`);
      await stop();
      await expectFailure(page, "HTTP and transport");
      await expect(step(page, "HTTP and transport")).toContainText("too slow or does not respond");
    });

    for (const hasMetadata of [true, false]) {
      test(`a server that requires a token ${hasMetadata ? "with" : "without"} OAuth metadata`, async ({ page, sidecar }) => {
        const { port, stop } = await startGuardedServer({ hasMetadata });
        const name = `guarded-${hasMetadata}-${suffix}`;
        await addServer(sidecar, name, `http://127.0.0.1:${port}/mcp`, ...(hasMetadata ? [] : ["--header", `X-Key:${SECRET}`]));
        await diagnose(page, sidecar, name);
        await stop();
        await expect(step(page, "HTTP and transport").locator(".badge")).toHaveText("ok");
        const authorization = step(page, "Authorization");
        await expect(authorization.locator(".badge")).toHaveText("failed");
        await expect(authorization).toContainText("HTTP 401");
        await expect(authorization).toContainText('Bearer realm="tools');
        await expect(step(page, "Tool list").locator(".badge")).toHaveText("skipped");
        if (hasMetadata) {
          await expect(authorization).toContainText("The server requires OAuth");
          await expect(authorization).toContainText("https://login.example");
        } else {
          await expect(authorization).toContainText("The server rejects the credential");
          await expect(authorization).toContainText("publishes no OAuth metadata");
          await expect(authorization).toContainText("[redacted]");
        }
        expect(await page.content()).not.toContain(SECRET);
        await expect(page.locator("#diagnosis a")).toHaveCount(0);
      });
    }
  });
}

test("only a few diagnoses run at the same time", async ({ page, sidecar }) => {
  const { port, stop } = await startServer(() => {});
  await addServer(sidecar, "silent", `http://127.0.0.1:${port}/mcp`, "--timeout-ms", "2000");
  await openDoctor(page, sidecar, "silent");
  const csrf = await page.locator("form[method=post] input[name=csrf]").last().inputValue();
  const { origin } = new URL(page.url());
  const run = () => page.request.post(page.url(), { form: { csrf }, headers: { origin } });
  const responses = await Promise.all(Array.from({ length: 8 }, run));
  await stop();
  const statuses = responses.map((response) => response.status());
  expect(statuses).toContain(200);
  expect(statuses).toContain(429);
});

test("axe finds nothing in a report", async ({ page, sidecar }) => {
  await diagnose(page, sidecar, "hostile");
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes[0].html])).toEqual([]);
});

tcpTest("a reader cannot run a diagnosis", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await page.goto(`${origin}/console/servers/hostile/doctor`);
  await expect(page.getByText("needs the scope")).toBeVisible();
  await expect(page.getByRole("button", { name: "Diagnose the connection" })).toHaveCount(0);
  const csrf = await page.locator("input[name=csrf]").first().inputValue();
  const refused = await page.request.post(`${origin}/console/servers/hostile/doctor`, { form: { csrf }, headers: { origin } });
  expect(refused.status()).toBe(403);
  const missing = await page.goto(`${origin}/console/servers/no-such-server/doctor`);
  expect(missing.status()).toBe(404);
});
