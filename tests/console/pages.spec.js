// What a person does on each page, with and without JavaScript.
import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./sidecar.js";

const PAGES = ["home", "approvals", "changes", "calls", "tools", "tools/calculator", "tools/hostile_attack", "servers", "servers/new", "servers/everything", "servers/everything/doctor", "registry", "chats", "chats/new", "usage", "access", "access/new", "connect", "settings", "saved-calls", "components"];

/** Clicks a link of the navigation. */
async function visit(page, name) {
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name }).click();
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a tool is run and its call is found in the log", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await visit(page, "Tools");
      await page.getByLabel("Search").fill("calculator");
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("link", { name: "calculator", exact: true }).click();
      await page.getByText("Arguments as JSON").click();
      await page.getByLabel("JSON").fill('{"expression": "6 * 7"');
      await page.getByRole("button", { name: "Run with this JSON" }).click();
      await expect(page.getByText("The arguments are not a JSON object")).toBeVisible();
      await expect(page.getByLabel("JSON")).toHaveValue('{"expression": "6 * 7"');
      await page.getByLabel("expression").fill("6 * 7");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await expect(page.locator("#result")).toContainText("42");
      await visit(page, "Calls");
      await page.getByLabel("Tool").fill("calculator");
      await page.getByRole("button", { name: "Show" }).click();
      await expect(page).toHaveURL(/tool=calculator/);
      await page.locator("tbody a").first().click();
      await expect(page.locator("#result")).toContainText("42");
      await expect(page.locator("#arguments")).toContainText("6 * 7");
    });

    test("a call is approved with changed arguments, and another one denied", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole("--user", "ada"));
      await page.waitForURL("**/console/home");
      const sides = javaScriptEnabled ? 6 : 8;
      for (const decision of ["approve", "deny"]) {
        await page.goto(new URL(`/console/tools/roll_dice`, page.url()).href);
        await page.getByText("Arguments as JSON").click();
        await page.getByLabel("JSON").fill(JSON.stringify({ dice: `1d${decision === "deny" ? sides + 1 : sides}` }));
        await page.getByRole("button", { name: "Run with this JSON" }).click();
        await expect(page.locator("#result")).toContainText("approval");
        await visit(page, "Approvals");
        await page.locator("tbody a").first().click();
        await expect(page.locator("#shown-arguments")).toContainText("1d");
        await page.getByLabel("Reason").fill("because");
        if (decision === "deny") {
          await page.getByRole("button", { name: "Deny" }).click();
        } else {
          await page.getByText("Change the arguments").click();
          await page.getByLabel("Arguments", { exact: true }).fill("[]");
          await page.getByRole("button", { name: "Approve with these arguments" }).click();
          await expect(page.getByText("The arguments are not a JSON object")).toBeVisible();
          await expect(page.getByLabel("Reason")).toHaveValue("because");
          await page.getByLabel("Arguments", { exact: true }).fill('{"dice": "2d4"}');
          await page.getByRole("button", { name: "Approve with these arguments" }).click();
          await expect(page.locator("#approved-arguments")).toContainText("2d4");
        }
        await expect(page.locator("#approval")).toContainText(decision === "deny" ? "denied" : "approved");
        await expect(page.locator("#approval")).toContainText("for ada");
      }
    });

    test("a server is tested, added, disabled and removed", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await visit(page, "Servers");
      await expect(page.getByRole("row", { name: /everything/ })).toBeVisible();
      await page.getByRole("link", { name: "Add a server" }).click();
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await expect(page.getByText("Server name is required")).toBeVisible();
      const name = javaScriptEnabled ? "second" : "third";
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await expect(page.getByText("Valid URL is required for HTTP transport")).toBeVisible();
      await expect(page.getByLabel("Name", { exact: true })).toHaveValue(name);
      await page.getByLabel("URL").fill(sidecar.hostile.url);
      await page.getByRole("button", { name: "Test and list the tools" }).click();
      await expect(page.getByText(/Connected in/)).toContainText("3 tools");
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await expect(page.locator("h1")).toHaveText(name);
      await page.getByRole("button", { name: "Disable" }).click();
      await expect(page.locator("#server")).toContainText("disabled");
      await page.getByRole("button", { name: "Enable" }).click();
      await page.getByRole("link", { name: "Remove …" }).click();
      await expect(page.getByText("the records of its calls")).toBeVisible();
      await page.getByRole("button", { name: "Remove the server" }).click();
      await expect(page.getByRole("row", { name: new RegExp(name) })).toHaveCount(0);
    });

    test("an expired session leads to the sign-in and back", async ({ page, sidecar, context }) => {
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await context.clearCookies();
      await visit(page, "Calls");
      await expect(page).toHaveURL(/sign-in\?return=calls/);
      await expect(page.locator("h1")).toHaveText("Sign in to Pillion");
    });
  });
}

test("pages change while they are open", async ({ consolePage: page, sidecar }) => {
  await visit(page, "Calls");
  const rows = page.locator("tbody tr");
  const before = await rows.count();
  sidecar.run("tools", "call", "get_time", "{}");
  await expect(rows).toHaveCount(before + 1);
});

test("nothing of a hostile server runs, on any page", async ({ consolePage: page }) => {
  await page.goto(new URL("/console/tools/hostile_attack", page.url()).href);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await expect(page.locator("#result")).toContainText("<script>");
  await visit(page, "Calls");
  await page.locator("tbody a").first().click();
  await expect(page.locator("#result")).toContainText("onerror");
  for (const path of ["tools/hostile_long", "tools/hostile_nested", "tools?search=hostile", "servers", "home"]) {
    const response = await page.goto(new URL(`/console/${path}`, page.url()).href);
    expect(response.status(), path).toBe(200);
    expect((await response.body()).length, path).toBeLessThan(60 * 1024);
    await expect(page.locator("form[action*='attacker']")).toHaveCount(0);
    await expect(page.locator("main a[href^='javascript']")).toHaveCount(0);
  }
  await page.goto(new URL("/console/tools/hostile_attack", page.url()).href);
  await expect(page.locator(".hidden-char").first()).toBeVisible();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async ({ consolePage: page }) => {
    await page.emulateMedia({ colorScheme });
    for (const path of PAGES) {
      await page.goto(new URL(`/console/${path}`, page.url()).href);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [path, id, nodes[0].html]), path).toEqual([]);
    }
  });
}

for (const width of [360, 2000]) {
  test(`no page scrolls sideways at ${width} px`, async ({ consolePage: page }) => {
    await page.setViewportSize({ width, height: 900 });
    for (const path of PAGES) {
      await page.goto(new URL(`/console/${path}`, page.url()).href);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(overflow, path).toBeLessThanOrEqual(0);
    }
  });
}
