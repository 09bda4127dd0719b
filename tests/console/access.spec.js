// The page Access: tokens, workers and sessions.
import AxeBuilder from "@axe-core/playwright";
import { ADMIN, READER, expect, listTools, signIn, test } from "./tcp.js";

const PAGES = ["access", "access/new", "access/token?entry=0", "connect"];

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a token is created, shown once, used and revoked", async ({ page, tcp: { origin } }) => {
      const name = javaScriptEnabled ? "first" : "second";
      await signIn(page, origin, ADMIN);
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Access" }).click();
      await expect(page.locator("h1")).toHaveText("Access");
      await expect(page.getByText("reader", { exact: true })).toBeVisible();
      await page.getByRole("link", { name: "Create a token" }).click();
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await expect(page.getByText("a token name must have 1 to 100 characters")).toBeVisible();
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByLabel("Scope", { exact: true }).selectOption("read");
      await page.getByLabel("Allowed tools").fill("get_time, calculator");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await expect(page.locator(".fault")).toContainText("separated by commas without spaces");
      await expect(page.getByLabel("Name", { exact: true })).toHaveValue(name);
      await expect(page.getByLabel("Scope", { exact: true })).toHaveValue("read");
      await page.getByLabel("Allowed tools").fill("get_time,calc*");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      const token = await page.locator("#token").textContent();
      expect(token).toMatch(/^pln_/);
      expect(await listTools(origin, token)).toBe(200);
      await page.goto(`${origin}/console/access`);
      const row = page.getByRole("row", { name: new RegExp(`^${name} `) });
      await expect(row).toContainText("get_time,calc*");
      await expect(row).toContainText("valid");
      expect(await page.content()).not.toContain(token);
      await row.getByRole("link").click();
      await expect(page.getByRole("link", { name: "get_time" })).toBeVisible();
      await expect(page.getByRole("link", { name: "calculator" })).toBeVisible();
      await expect(page.getByRole("link", { name: "roll_dice" })).toHaveCount(0);
      expect(await page.content()).not.toContain(token);
      await page.getByRole("link", { name: "Revoke …" }).click();
      await page.getByRole("button", { name: "Revoke the token" }).click();
      await expect(row).toContainText("revoked");
      expect(await listTools(origin, token)).toBe(401);
      await page.goto(`${origin}/console/access/new`);
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await expect(page.locator(".fault")).toContainText("already exists");
    });

    test("a session is ended", async ({ browser, page, tcp: { origin } }) => {
      const other = await browser.newContext();
      const otherPage = await other.newPage();
      await signIn(otherPage, origin, READER);
      await signIn(page, origin, ADMIN);
      await page.goto(`${origin}/console/access`);
      await expect(page.locator("#sessions")).toContainText("this browser");
      const rows = page.locator("#sessions tbody tr", { hasText: "token:reader" });
      let count = await rows.count();
      expect(count).toBeGreaterThan(0);
      while (count > 0) {
        await rows.first().getByRole("button").click();
        count -= 1;
        await expect(rows).toHaveCount(count);
      }
      await otherPage.goto(`${origin}/console/home`);
      await expect(otherPage).toHaveURL(/sign-in/);
      await other.close();
    });
  });
}

test("a reader sees no tokens and changes nothing", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  const navigation = page.getByRole("navigation", { name: "Console" });
  await expect(navigation.getByRole("link", { name: "Connect" })).toBeVisible();
  await expect(navigation.getByRole("link", { name: "Access" })).toHaveCount(0);
  const csrf = await page.locator("input[name=csrf]").first().getAttribute("value");
  for (const path of ["access", "access/new", "access/token?name=x", "access/token?entry=0", "access/revoke?name=x"]) {
    const response = await page.request.get(`${origin}/console/${path}`);
    expect(response.status(), path).toBe(403);
  }
  const form = { csrf, name: "forged", scope: "admin", users: "any", id: "x" };
  for (const path of ["access/new", "access/revoke", "access/session", "connect/token"]) {
    const response = await page.request.post(`${origin}/console/${path}`, { form, headers: { origin }, maxRedirects: 0 });
    expect(response.status(), path).toBe(403);
  }
  await page.goto(`${origin}/console/connect`);
  await expect(page.getByRole("button", { name: "Create a token and add it below" })).toHaveCount(0);
});

test("a sidecar without TCP says that it accepts no tokens", async ({ consolePage: page }) => {
  await page.goto(new URL("/console/access", page.url()).href);
  await expect(page.getByText("does not listen on TCP")).toBeVisible();
  await expect(page.getByText("No tokens in the store")).toBeVisible();
  await expect(page.getByText("No workers")).toBeVisible();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, and nothing scrolls sideways, ${colorScheme}`, async ({ page, tcp: { origin } }) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: colorScheme === "light" ? 360 : 2000, height: 900 });
    await signIn(page, origin, ADMIN);
    for (const path of PAGES) {
      const response = await page.goto(`${origin}/console/${path}`);
      expect(response.status(), path).toBe(200);
      expect((await response.body()).length, path).toBeLessThan(60 * 1024);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [path, id, nodes[0].html]), path).toEqual([]);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(overflow, path).toBeLessThanOrEqual(0);
    }
  });
}
