// The page Settings: the configuration in force, its warnings, and the last reloads.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import AxeBuilder from "@axe-core/playwright";
import { ADMIN, READER, expect, signIn, test } from "./tcp.js";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a setting is found with its origin, and no credential is shown", async ({ page, tcp: { origin } }) => {
      await signIn(page, origin, ADMIN);
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Settings" }).click();
      await expect(page.locator("h1")).toHaveText("Settings");
      expect((await page.content()).length).toBeLessThan(60 * 1024);
      for (const token of [ADMIN, READER]) expect(await page.content()).not.toContain(token);
      await page.getByRole("searchbox", { name: "Search in keys, values and origins" }).fill("tokens_store");
      await page.getByRole("button", { name: "Search" }).click();
      await expect(page).toHaveURL(/q=tokens_store/);
      const row = page.getByRole("row", { name: /tcp\.tokens_store/ });
      await expect(row).toContainText("true");
      await expect(row).toContainText("default: false");
      await expect(row).toContainText(/pillion\.toml:\d+/);
      await page.goto(`${origin}/console/settings?q=nothing-has-this-name`);
      await page.getByRole("link", { name: "Show all settings" }).click();
      await expect(page.getByRole("heading", { name: /^Different from the default/ })).toBeVisible();
      await expect(page.getByRole("heading", { name: /^Defaults/ })).toBeVisible();
    });

    test("the configuration is reloaded, and a changed key is listed", async ({ page, tcp: { sidecar, origin } }) => {
      const file = join(sidecar.directory, "pillion.toml");
      await signIn(page, origin, ADMIN);
      await page.goto(`${origin}/console/settings`);
      await page.getByRole("button", { name: "Reload the configuration" }).click();
      const reloads = page.locator("#reloads");
      await expect(reloads).toContainText("the console");
      await expect(reloads).toContainText("applied");
      const section = javaScriptEnabled ? "cache" : "memory";
      appendFileSync(file, `\n[${section}]\nenabled = false\n`);
      await expect(async () => {
        if (!javaScriptEnabled) await page.reload();
        await expect(reloads).toContainText(`${section}.enabled`, { timeout: 1000 });
      }).toPass();
      await page.goto(`${origin}/console/settings?q=${section}.enabled`);
      await expect(page.locator("#settings")).toContainText("default: true");
    });
  });
}

test("a reader sees no settings", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await expect(page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Settings" })).toHaveCount(0);
  const response = await page.goto(`${origin}/console/settings`);
  expect(response.status()).toBe(403);
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing on the settings, ${colorScheme}`, async ({ page, tcp: { origin } }) => {
    await page.emulateMedia({ colorScheme });
    await signIn(page, origin, ADMIN);
    await page.goto(`${origin}/console/settings`);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations).toEqual([]);
  });
}
