// The page of a tool: which clients and models are offered the tool, saved calls, calls as code, and forms with alternatives.
import AxeBuilder from "@axe-core/playwright";
import { ADMIN, READER, expect, signIn, test as tcpTest } from "./tcp.js";
import { test } from "./sidecar.js";

/** Returns the URL of a page of the console. */
function pageUrl(page, path) {
  return new URL(`/console/${path}`, page.url()).href;
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a call is saved, run again and removed", async ({ page, sidecar }) => {
      const person = javaScriptEnabled ? "ada" : "bob";
      await page.goto(await sidecar.openConsole("--user", person));
      await page.waitForURL("**/console/home");
      await page.goto(pageUrl(page, "saved-calls"));
      await expect(page.getByText("No saved calls")).toBeVisible();
      await page.goto(pageUrl(page, "tools/calculator"));
      await page.getByLabel("expression").fill("6 * 7");
      await page.getByText("Save this call").first().click();
      await page.getByRole("button", { name: "Save without running" }).first().click();
      await expect(page.locator(".fault").first()).toContainText("1 to 100 characters");
      await expect(page.getByLabel("expression")).toHaveValue("6 * 7");
      await page.getByLabel("Name of the saved call").first().fill("six <b> times");
      await page.getByRole("button", { name: "Save without running" }).first().click();
      await expect(page.locator("h1")).toHaveText("Saved calls");
      await expect(page.getByRole("row", { name: /six <b> times/ })).toContainText("6 * 7");
      await page.getByRole("button", { name: /^Run/ }).click();
      await expect(page.locator("#result")).toContainText("42");
      await page.getByRole("link", { name: "six <b> times" }).click();
      await expect(page.getByLabel("expression")).toHaveValue("6 * 7");
      await expect(page.locator("#result")).toHaveCount(0);
      await page.goto(pageUrl(page, "saved-calls"));
      await page.getByRole("button", { name: /^Remove/ }).click();
      await expect(page.getByText("No saved calls")).toBeVisible();
    });

    test("a recorded call is run again, without its secrets", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      sidecar.run("tools", "call", "calculator", '{"expression": "9 * 9"}');
      await page.goto(pageUrl(page, "calls?tool=calculator"));
      await page.locator("tbody a").first().click();
      await page.getByRole("link", { name: "Run again" }).click();
      await expect(page.getByLabel("expression")).toHaveValue("9 * 9");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await expect(page.locator("#result")).toContainText("81");
    });

    test("the page of a long call shows when it has ended", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await page.goto(pageUrl(page, "tools/everything_trigger-long-running-operation"));
      await page.getByLabel("duration").fill("6");
      await page.getByLabel("steps").fill("2");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await expect(page).toHaveURL(/console\/calls\/[0-9a-f-]+$/);
      await expect(async () => {
        if (!javaScriptEnabled) await page.reload();
        await expect(page.locator("#result")).toContainText("completed", { timeout: 1000 });
      }).toPass({ timeout: 20_000 });
      await expect(page.getByText("The call is running")).toHaveCount(0);
    });

    test("a call is shown as code", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      const json = JSON.stringify({ expression: "it's $1", token: "hunter2" });
      await page.goto(pageUrl(page, `tools/calculator?${new URLSearchParams({ arguments: json, user: "ada" })}`));
      await page.getByText("curl, command line and PHP").click();
      await expect(page.locator("#snippet-curl")).toContainText(`"expression":"it'\\''s $1"`);
      await expect(page.locator("#snippet-curl")).toContainText(sidecar.socket);
      await expect(page.locator("#snippet-cli")).toContainText("pillion tools call calculator '{");
      await expect(page.locator("#snippet-php")).toContainText(`'expression' => 'it\\'s $1'`);
      for (const id of ["curl", "cli", "php"]) {
        await expect(page.locator(`#snippet-${id}`)).not.toContainText("hunter2");
      }
      await page.goto(pageUrl(page, "tools/calculator?arguments=%5B"));
      await expect(page.getByText("The arguments are not a JSON object")).toBeVisible();
    });
  });
}

test("the page of a tool says who gets it", async ({ consolePage: page }) => {
  await page.goto(pageUrl(page, "tools/hostile_long"));
  const card = page.locator(".card", { has: page.getByRole("heading", { name: "Who gets the tool" }) });
  await expect(card.getByRole("row", { name: /REST API/ })).toContainText("hostile_long");
  await expect(card.getByRole("row", { name: /MCP clients/ })).toContainText("long");
  await expect(card.getByRole("row", { name: /^You/ })).toContainText("can run");
});

test("the tools that wait, that are rejected and that are accepted have lists", async ({ consolePage: page }) => {
  await page.goto(pageUrl(page, "tools?search=hostile"));
  await page.goto(pageUrl(page, "changes"));
  await page.getByLabel("Tools", { exact: true }).selectOption("all");
  await page.getByLabel("Server", { exact: true }).fill("hostile");
  await page.getByRole("button", { name: "Show" }).click();
  await expect(page.getByRole("row", { name: /nested/ })).toContainText("accepted");
  for (const shown of ["rejected", "missing"]) {
    await page.goto(pageUrl(page, `changes?show=${shown}&server=hostile`));
    await expect(page.getByText("No such tools")).toBeVisible();
  }
});

test("axe finds nothing", async ({ consolePage: page }) => {
  for (const path of ["saved-calls", "tools/calculator?arguments=%7B%7D", "changes?show=all"]) {
    await page.goto(pageUrl(page, path));
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [path, id, nodes[0].html]), path).toEqual([]);
  }
});

tcpTest("a reader runs and saves nothing, and rejects no change", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await page.goto(`${origin}/console/tools/calculator`);
  await expect(page.getByRole("button", { name: "Run", exact: true })).toHaveCount(0);
  await expect(page.getByRole("row", { name: /^You/ })).toContainText("execute");
  const csrf = await page.locator("input[name=csrf]").first().inputValue();
  const forms = {
    "tools/calculator": { json: "{}", action: "save", "json-saved-name": "x" },
    "saved-calls": { name: "x" },
    "changes/tool?server=hostile&tool=long": { hash: "x", decision: "reject" },
  };
  for (const [path, form] of Object.entries(forms)) {
    const response = await page.request.post(`${origin}/console/${path}`, { form: { csrf, ...form }, headers: { origin } });
    expect(response.status(), path).toBe(403);
  }
});

tcpTest("one person does not see the saved calls of another", async ({ page, tcp: { origin, sidecar }, browser }) => {
  await signIn(page, origin, ADMIN);
  await page.goto(`${origin}/console/tools/get_time`);
  await page.getByText("Save this call").first().click();
  await page.getByLabel("Name of the saved call").first().fill("mine");
  await page.getByRole("button", { name: "Save without running" }).first().click();
  await expect(page.getByRole("row", { name: /mine/ })).toBeVisible();
  const other = await browser.newContext();
  const otherPage = await other.newPage();
  await otherPage.goto(await sidecar.openConsole("--user", "eve"));
  await otherPage.waitForURL("**/console/home");
  await otherPage.goto(pageUrl(otherPage, "saved-calls"));
  await expect(otherPage.getByText("No saved calls")).toBeVisible();
  const response = await otherPage.goto(pageUrl(otherPage, "tools/get_time?saved=mine"));
  expect(response.status()).toBe(404);
  await other.close();
});
