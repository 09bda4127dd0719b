// The page Usage.
import { expect, test } from "./sidecar.js";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("calls are counted per tool, server and user, and lead to the log", async ({ page, sidecar }) => {
      sidecar.run("tools", "call", "calculator", '{"expression": "6 * 7"}', "--user", "grace");
      sidecar.run("tools", "call", "everything_echo", '{"message": "hello"}', "--user", "grace");
      await page.goto(await sidecar.openConsole());
      await page.waitForURL("**/console/home");
      await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Usage" }).click();
      await page.getByLabel("Period").selectOption("hour");
      await page.getByLabel("User").fill("grace");
      await page.getByRole("button", { name: "Show" }).click();
      await expect(page).toHaveURL(/period=hour.*user=grace/);
      const rows = page.locator("tbody tr");
      await expect(rows.filter({ hasText: "calculator" })).toContainText("(0.0 %)");
      await expect(rows.filter({ hasText: "grace" })).toHaveCount(1);
      await expect(page.getByRole("img", { name: /calls?, 0 failed/ })).toBeVisible();
      await page.getByRole("link", { name: "everything_echo", exact: true }).click();
      await expect(page).toHaveURL(/calls\?tool=everything_echo/);
      await expect(page.locator("tbody tr").first()).toContainText("everything_echo");
    });
  });
}
