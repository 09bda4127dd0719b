// The page Connect: configurations to copy, which work as they are, and the test of a token.
import { execFileSync } from "node:child_process";
import { ADMIN, READER, expect, listTools, signIn, test } from "./tcp.js";

/** Runs a command of the page. Returns what it prints. */
async function runSnippet(page, id) {
  const command = await page.locator(`#${id}`).textContent();
  return execFileSync("sh", ["-c", command], { encoding: "utf8" });
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("the configurations for the socket work", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Connect" }).click();
      await expect(page.locator("#enable-tcp")).toContainText("tokens_store = true");
      await expect(page.locator("#curl-tcp")).toHaveCount(0);
      for (const id of ["claude-desktop", "claude-code", "vscode", "cursor", "php", "php-library", "laravel"]) {
        await expect(page.locator(`#${id}`)).toContainText(sidecar.socket);
      }
      expect(await runSnippet(page, "curl")).toContain("42");
      expect(await runSnippet(page, "curl-mcp")).toContain("42");
      const { args } = JSON.parse(await page.locator("#claude-desktop").textContent()).mcpServers.pillion;
      const call = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          name: "calculator",
          arguments: { expression: "6 * 7" },
          _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} },
        },
      };
      const output = execFileSync(process.env.PILLION, args, { encoding: "utf8", input: `${JSON.stringify(call)}\n` });
      expect(output).toContain("42");
    });

    test("a new token is in all configurations for TCP, and can be tried", async ({ page, tcp: { origin } }) => {
      await signIn(page, origin, ADMIN);
      await page.goto(`${origin}/console/connect`);
      await expect(page.locator("#curl-tcp")).toContainText("Bearer TOKEN");
      await page.getByRole("button", { name: "Create a token and add it below" }).click();
      await expect(page.getByText("It is shown only now")).toBeVisible();
      const { url, headers } = JSON.parse(await page.locator("#vscode-tcp").textContent()).servers.pillion;
      expect(url).toBe(`${origin}/mcp`);
      const token = headers.Authorization.replace("Bearer ", "");
      expect(token).toMatch(/^pln_/);
      expect(await listTools(origin, token)).toBe(200);
      for (const id of ["claude-code-tcp", "cursor-tcp", "php-tcp", "laravel-token"]) {
        await expect(page.locator(`#${id}`)).toContainText(token);
      }
      expect(await runSnippet(page, "curl-tcp")).toContain("42");
      expect(await runSnippet(page, "curl-mcp-tcp")).toContain("42");
      await page.goto(`${origin}/console/connect`);
      expect(await page.content()).not.toContain(token);
      await page.getByLabel("Access token").fill(token);
      await page.getByRole("button", { name: "Try", exact: true }).click();
      await expect(page.locator("#trial")).toContainText("execute");
      await expect(page.locator("#trial")).toContainText(/[1-9]\d* tools/);
      expect(await page.content()).not.toContain(token);
      await page.getByLabel("Access token").fill("pln_unknown-unknown-unknown");
      await page.getByRole("button", { name: "Try", exact: true }).click();
      await expect(page.locator(".fault")).toContainText("rejects this token");
      expect(await page.content()).not.toContain("pln_unknown");
    });
  });
}

test("a reader tries a token", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await page.goto(`${origin}/console/connect`);
  await page.getByLabel("Access token").fill(READER);
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await expect(page.locator("#trial")).toContainText("read");
});

test("a button copies a configuration", async ({ context, page, sidecar }) => {
  await page.goto(await sidecar.openConsole());
  await page.waitForURL("**/console/home");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(new URL("/console/connect", page.url()).href);
  await page.locator("[data-copy=claude-code]").click();
  const text = await page.locator("#claude-code").textContent();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(text);
});
