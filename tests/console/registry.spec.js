// The page Registry: search, installation, and a registry that is hostile or cannot be reached.
import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./sidecar.js";
import { READER, signIn, test as tcpTest } from "./tcp.js";

const PAGES = ["registry", "registry?q=", "registry?q=nothing", "registry/server?name=io.github.ada/weather", "registry/server?name=com.attacker/attack", "registry/install?name=io.github.ada/weather&method=remote-0"];

/** Returns the URL of a page of the console. */
function pageUrl(page, path) {
  return new URL(`/console/${path}`, page.url()).href;
}

/** Signs in, and opens the page Registry. */
async function openRegistry(page, sidecar) {
  await page.goto(await sidecar.openConsole());
  await page.waitForURL("**/console/home");
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Registry" }).click();
  await expect(page.locator("h1")).toHaveText("Registry");
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a server is found, installed disabled, tested and enabled", async ({ page, sidecar }) => {
      const requests = sidecar.registry.requests.length;
      await openRegistry(page, sidecar);
      expect(sidecar.registry.requests.length).toBe(requests);
      await page.getByRole("link", { name: "list all servers" }).click();
      await expect(page.locator("#servers")).toContainText("Forecasts for every city");
      await page.getByRole("link", { name: "Next page" }).click();
      await expect(page.locator("#servers")).toContainText("com.example");
      await page.getByRole("link", { name: "First page" }).click();
      await page.getByLabel("Search").fill("weather");
      await page.getByRole("button", { name: "Search" }).click();
      await expect(page.locator("#servers tbody tr")).toHaveCount(1);
      expect(sidecar.registry.requests.at(-1)).toContain("search=weather");
      await page.getByRole("link", { name: "Weather", exact: true }).click();
      await expect(page.locator("h1")).toHaveText("io.github.ada/weather");
      await expect(page.locator("#repository")).toHaveText("https://github.com/ada/weather");
      await expect(page.locator("a[href*='github.com']")).toHaveCount(0);
      await expect(page.getByText("registry.allowed_commands")).toBeVisible();
      await page.getByRole("link", { name: "0.9.0" }).click();
      await expect(page.getByText("An old version")).toBeVisible();
      await page.getByRole("link", { name: "1.1.0" }).click();
      await page.getByRole("link", { name: "Install …" }).click();
      await expect(page.getByLabel("Name")).toHaveValue("weather");
      const name = javaScriptEnabled ? "weather-a" : "weather-b";
      await page.getByLabel("Name").fill(name);
      await page.getByRole("button", { name: "Install" }).click();
      await expect(page.locator(".fault")).toHaveText("A value is required");
      await expect(page.getByLabel("Name")).toHaveValue(name);
      await page.getByLabel("X-Api-Key").fill("s3cret-key");
      await page.getByLabel("Name").fill("hostile");
      await page.getByRole("button", { name: "Install" }).click();
      await expect(page.locator(".fault")).toContainText("already exists");
      await expect(page.getByLabel("X-Api-Key")).toHaveValue("");
      await page.getByLabel("Name").fill(name);
      await page.getByLabel("X-Api-Key").fill("s3cret-key");
      await page.getByRole("button", { name: "Install" }).click();
      await expect(page.locator("h1")).toHaveText(name);
      await expect(page.locator("#server")).toContainText("disabled");
      await expect(page.locator("#server")).toContainText("block");
      expect(await page.content()).not.toContain("s3cret-key");
      const serverUrl = page.url();
      await page.goto(pageUrl(page, `tools?search=${name}`));
      await expect(page.locator("#tools tbody tr")).toHaveCount(0);
      await page.goto(serverUrl);
      await page.getByRole("button", { name: "Test the connection" }).click();
      await expect(page.getByText(/Connected in/)).toContainText("3 tools");
      await page.goto(serverUrl);
      await page.getByRole("button", { name: "Enable" }).click();
      await expect(page.locator("#server")).not.toContainText("disabled");
      await page.getByRole("link", { name: "Remove …" }).click();
      await page.getByRole("button", { name: "Remove the server" }).click();
    });
  });
}

test("nothing of a hostile registry runs, and nothing of it is installed", async ({ consolePage: page }) => {
  for (const path of [...PAGES, "registry?q=heavy", "registry/server?name=com.attacker/heavy"]) {
    const response = await page.goto(pageUrl(page, path));
    expect(response.status(), path).toBe(200);
    expect((await response.body()).length, path).toBeLessThan(60 * 1024);
    await expect(page.locator("main a[href^='javascript']"), path).toHaveCount(0);
    await expect(page.locator("main a[href^='http']"), path).toHaveCount(0);
  }
  await page.goto(pageUrl(page, "registry?q="));
  await expect(page.getByText("are left out")).toContainText("1");
  await page.goto(pageUrl(page, "registry/server?name=com.attacker/attack"));
  await expect(page.locator(".hidden-char").first()).toBeVisible();
  await expect(page.getByRole("link", { name: "Install …" })).toHaveCount(0);
  await expect(page.getByText("169.254.169.254 are not allowed")).toBeVisible();
  for (const method of ["remote-0", "remote-1", "remote-2", "package-0", "package-1", "remote-9", "program-0"]) {
    const response = await page.request.get(pageUrl(page, `registry/install?name=com.attacker/attack&method=${method}`));
    expect(response.status(), method).toBeGreaterThanOrEqual(400);
    expect(response.status(), method).toBeLessThan(500);
  }
  const deleted = await page.request.get(pageUrl(page, "registry/install?name=com.example/removed&method=remote-0"));
  expect(deleted.status()).toBe(403);
  // The default configuration allows no program.
  const program = await page.request.get(pageUrl(page, "registry/install?name=io.github.ada/weather&method=package-0"));
  expect(program.status()).toBe(403);
  for (const name of ["", "../..", "no namespace", "a/b", "a/b/../c"]) {
    const response = await page.request.get(pageUrl(page, `registry/server?name=${encodeURIComponent(name)}`));
    expect(response.status(), name).toBe(404);
  }
});

test("an entry that has changed since the form was opened is not installed", async ({ consolePage: page }) => {
  await page.goto(pageUrl(page, "registry/install?name=io.github.ada/weather&method=remote-0"));
  const csrf = await page.locator("form[method=post] input[name=csrf]").last().inputValue();
  const form = { csrf, name: "io.github.ada/weather", version: "1.1.0", method: "remote-0", digest: "0".repeat(64), "server-name": "changed", "value-0": "key" };
  const { origin } = new URL(page.url());
  const response = await page.request.post(pageUrl(page, "registry/install"), { form, headers: { origin } });
  expect(response.status()).toBe(409);
  expect(await response.text()).toContain("has changed");
});

test("the mirror is used while the registry cannot be reached", async ({ consolePage: page, sidecar }) => {
  for (const path of ["registry?q=", "registry?q=weather", "registry/server?name=io.github.ada/weather"]) {
    await page.goto(pageUrl(page, path));
    await expect(page.getByText("This is from the mirror")).toHaveCount(0);
  }
  await sidecar.registry.stop();
  try {
    for (const path of ["registry?q=", "registry?q=Forecasts"]) {
      await page.goto(pageUrl(page, path));
      await expect(page.locator("main .notice"), path).toContainText("The registry cannot be reached");
      await expect(page.locator("main .notice"), path).toContainText("This is from the mirror");
      await expect(page.locator("#servers"), path).toContainText("Forecasts for every city");
    }
    await page.goto(pageUrl(page, "registry?q=no-such-server"));
    await expect(page.getByText("No servers found")).toBeVisible();
    await page.goto(pageUrl(page, "registry/server?name=io.github.ada/weather"));
    await expect(page.getByText("This is from the mirror")).toBeVisible();
    const unknown = await page.request.get(pageUrl(page, "registry/server?name=com.example/notes"));
    expect(unknown.status()).toBe(503);
  } finally {
    await sidecar.registry.restart();
  }
});

tcpTest("a reader searches, and installs nothing", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await page.goto(`${origin}/console/registry/server?name=io.github.ada/weather`);
  await expect(page.locator("#repository")).toBeVisible();
  await expect(page.getByRole("link", { name: "Install …" })).toHaveCount(0);
  const csrf = await page.locator("input[name=csrf]").first().inputValue();
  const form = { csrf, name: "io.github.ada/weather", version: "1.1.0", method: "remote-0", "server-name": "reader", "value-0": "key" };
  const response = await page.request.post(`${origin}/console/registry/install`, { form, headers: { origin } });
  expect(response.status()).toBe(403);
  expect((await page.request.get(`${origin}/console/registry/install?name=io.github.ada/weather&method=remote-0`)).status()).toBe(403);
});

test("axe finds nothing, and no page scrolls sideways", async ({ consolePage: page }) => {
  for (const width of [360, 2000]) {
    await page.setViewportSize({ width, height: 900 });
    for (const path of PAGES) {
      await page.goto(pageUrl(page, path));
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [path, id, nodes[0].html]), path).toEqual([]);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(overflow, path).toBeLessThanOrEqual(0);
    }
  }
});
