// The pages on which a server is changed, its credentials are set, and a person logs in.
import AxeBuilder from "@axe-core/playwright";
import { startOAuthServer } from "./oauth-server.js";
import { test } from "./sidecar.js";
import { ADMIN, READER, expect, signIn, test as tcpTest } from "./tcp.js";

/** Returns the URL of a page of the console. */
function pageUrl(page, path) {
  return new URL(`/console/${path}`, page.url()).href;
}

async function openConsole(page, sidecar) {
  await page.goto(await sidecar.openConsole("--user", "ada"));
  await page.waitForURL("**/console/home");
}

/** Fills in the form of a new server and sends it. `fill` fills in further fields. */
async function addServer(page, name, url, fill = async () => {}) {
  await page.goto(pageUrl(page, "servers/new"));
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("URL", { exact: true }).fill(url);
  await fill();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await expect(page.locator("h1")).toHaveText(name);
}

async function expectNoViolations(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [page.url(), id, nodes[0].html])).toEqual([]);
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });
    const suffix = javaScriptEnabled ? "a" : "b";

    test("the settings of a server are changed, and its secrets are not shown", async ({ page, sidecar }) => {
      await openConsole(page, sidecar);
      await addServer(page, `edited-${suffix}`, sidecar.hostile.url, async () => {
        await page.getByLabel("Credential", { exact: true }).selectOption("bearer");
        await page.getByLabel("Secret", { exact: true }).fill("hush-token");
        await page.getByText("Headers", { exact: true }).click();
        await page.getByLabel("Header 1", { exact: true }).fill("X-Key");
        await page.getByLabel("Value 1", { exact: true }).fill("hush-header");
      });
      await page.getByRole("link", { name: "Edit", exact: true }).click();
      expect(await page.content()).not.toContain("hush");
      await expect(page.getByLabel("Credential", { exact: true })).toHaveValue("keep");
      await page.getByLabel("Value of X-Key", { exact: true }).fill("hush-other");
      await page.getByRole("button", { name: "Test and list the tools" }).click();
      await expect(page.getByText("type them again before you save")).toBeVisible();
      expect(await page.content()).not.toContain("hush");
      await expect(page.getByLabel("Value of X-Key", { exact: true })).toHaveValue("");
      await page.getByLabel("Description", { exact: true }).fill("Line 1\nLine 2");
      await page.getByLabel("Timeout in milliseconds", { exact: true }).fill("soon");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.locator(".fault")).toContainText("Type a whole number");
      await expect(page.getByLabel("Description", { exact: true })).toHaveValue("Line 1\nLine 2");
      await page.getByLabel("Timeout in milliseconds", { exact: true }).fill("5000");
      await page.getByRole("button", { name: "Test and list the tools" }).click();
      await expect(page.getByText(/Connected in/)).toContainText("3 tools");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.locator("h1")).toHaveText(`edited-${suffix}`);
      await expect(page.locator("main")).toContainText("Line 1");
      await expect(page.locator("#server")).toContainText("X-Key");
      await expect(page.locator("#server")).toContainText("bearer");

      // A change of the address requires all secrets again.
      await page.getByRole("link", { name: "Edit", exact: true }).click();
      await page.getByLabel("URL", { exact: true }).fill("http://127.0.0.1:9/mcp");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.locator(".fault")).toContainText("previous address");
      await expect(page.getByLabel("URL", { exact: true })).toHaveValue("http://127.0.0.1:9/mcp");
      await page.getByLabel("URL", { exact: true }).fill(sidecar.hostile.url);
      await page.getByLabel("Remove X-Key", { exact: true }).check();
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.locator("#server")).not.toContainText("X-Key");
    });

    test("two people do not overwrite each other's settings", async ({ page, sidecar, context }) => {
      await openConsole(page, sidecar);
      await addServer(page, `shared-${suffix}`, sidecar.hostile.url);
      await page.getByRole("link", { name: "Edit", exact: true }).click();
      const other = await context.newPage();
      await other.goto(page.url());
      await other.getByLabel("Description", { exact: true }).fill("first");
      await other.getByRole("button", { name: "Save", exact: true }).click();
      await expect(other.locator("main")).toContainText("first");
      await page.getByLabel("Description", { exact: true }).fill("second");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.getByText("were changed after this page was loaded")).toBeVisible();
      await expect(page.getByLabel("Description", { exact: true })).toHaveValue("second");
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await expect(page.locator("main")).toContainText("second");
    });

    test("the credential of a user is set, replaced and removed", async ({ page, sidecar }) => {
      await openConsole(page, sidecar);
      await addServer(page, `users-${suffix}`, sidecar.hostile.url, async () => {
        await page.getByLabel("Calls use", { exact: true }).selectOption("per_user");
      });
      await page.getByRole("link", { name: "Credentials", exact: true }).click();
      await expect(page.getByText("No user has a credential")).toBeVisible();
      await page.getByLabel("User", { exact: true }).fill("<b>ada</b>");
      await page.getByRole("button", { name: "Set the credential" }).click();
      await expect(page.locator(".fault")).toContainText("The secret is missing");
      await expect(page.getByLabel("User", { exact: true })).toHaveValue("<b>ada</b>");
      await page.getByLabel("Secret", { exact: true }).fill("hush-user");
      await page.getByRole("button", { name: "Set the credential" }).click();
      const row = page.getByRole("row", { name: /<b>ada<\/b>/ });
      await expect(row).toContainText("bearer");
      expect(await page.content()).not.toContain("hush");
      await row.getByRole("link", { name: "Replace" }).click();
      await expect(page.getByLabel("User", { exact: true })).toHaveValue("<b>ada</b>");
      await page.getByLabel("Credential", { exact: true }).selectOption("api-key");
      await page.getByLabel("Secret", { exact: true }).fill("hush-other");
      await page.getByRole("button", { name: "Set the credential" }).click();
      await expect(row).toContainText("api-key");
      await row.getByRole("button", { name: /^Remove/ }).click();
      await expect(page.getByText("No user has a credential")).toBeVisible();
    });

    test("a person logs in at the authorization server of an MCP server", async ({ page, sidecar }) => {
      const oauth = await startOAuthServer();
      try {
        await openConsole(page, sidecar);
        await addServer(page, `far-${suffix}`, oauth.url, async () => {
          await page.getByLabel("Credential", { exact: true }).selectOption("oauth");
          await page.getByLabel("Calls use", { exact: true }).selectOption("user_or_shared");
        });
        const serverUrl = page.url();

        // The person denies the authorization.
        await page.getByRole("button", { name: "Log in", exact: true }).click();
        await expect(page.getByRole("main")).toContainText(oauth.issuer);
        await expect(page.getByRole("main")).toContainText(new URL("/console/oauth/callback", serverUrl).href);
        await page.getByRole("link", { name: "Continue to the authorization server" }).click();
        await page.getByRole("link", { name: "Deny" }).click();
        await expect(page.getByText("access_denied")).toBeVisible();

        await page.goto(serverUrl);
        await page.getByRole("button", { name: "Log in", exact: true }).click();
        await page.getByRole("link", { name: "Continue to the authorization server" }).click();
        await page.getByRole("link", { name: "Allow" }).click();
        await page.waitForURL(/credentials\?login=done/);
        await expect(page.getByText("logged in", { exact: true })).toBeVisible();
        expect(oauth.tokenRequests.at(-1).redirect_uri).toBe(new URL("/console/oauth/callback", serverUrl).href);
        expect(await page.content()).not.toContain("hush");
        await page.getByRole("link", { name: "Back to the server" }).click();
        await page.getByRole("button", { name: "Test the connection" }).click();
        await expect(page.getByText(/Connected in/)).toContainText("1 tool");

        // Then one user logs in.
        await page.getByRole("link", { name: "Credentials", exact: true }).click();
        await page.getByLabel("User", { exact: true }).fill("ada");
        await page.getByRole("button", { name: "Log in as this user" }).click();
        await page.getByRole("link", { name: "Continue to the authorization server" }).click();
        await page.getByRole("link", { name: "Allow" }).click();
        await page.waitForURL(/credentials\?login=done/);
        await expect(page.getByRole("row", { name: /ada/ })).toContainText("oauth");
        await page.getByRole("button", { name: "Remove the login" }).click();
        await expect(page.getByText("not logged in", { exact: true })).toBeVisible();
        await expect(page.getByRole("row", { name: /ada/ })).toContainText("logged in");
      } finally {
        oauth.stop();
      }
    });
  });
}

test("a login of another browser session cannot be finished", async ({ page, sidecar, browser }) => {
  const oauth = await startOAuthServer();
  const attacker = await browser.newContext();
  try {
    await openConsole(page, sidecar);
    await addServer(page, "mixed-up", oauth.url, async () => {
      await page.getByLabel("Credential", { exact: true }).selectOption("oauth");
    });
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await page.getByRole("link", { name: "Continue to the authorization server" }).click();
    const redirect = await page.getByRole("link", { name: "Allow" }).getAttribute("href");

    const otherPage = await attacker.newPage();
    await otherPage.goto(await sidecar.openConsole());
    await otherPage.waitForURL("**/console/home");
    const { search } = new URL(redirect);
    const response = await otherPage.goto(pageUrl(otherPage, `oauth/finish${search}`));
    expect(response.status()).toBe(404);
    await expect(otherPage.getByText("started in another browser session")).toBeVisible();
    expect(oauth.tokenRequests).toEqual([]);

    // The session that began the login finishes it, once.
    await page.getByRole("link", { name: "Allow" }).click();
    await page.waitForURL(/credentials\?login=done/);
    const replay = await page.goto(pageUrl(page, `oauth/finish${search}`));
    expect(replay.status()).toBe(404);
    expect(oauth.tokenRequests).toHaveLength(1);
  } finally {
    await attacker.close();
    oauth.stop();
  }
});

test("the pages of a server are accessible and fit small screens", async ({ page, sidecar }) => {
  await openConsole(page, sidecar);
  await addServer(page, "accessible", sidecar.hostile.url, async () => {
    await page.getByLabel("Calls use", { exact: true }).selectOption("user_or_shared");
    await page.getByText("Headers", { exact: true }).click();
    await page.getByLabel("Header 1", { exact: true }).fill("X-Key");
    await page.getByLabel("Value 1", { exact: true }).fill("hush");
  });
  const serverUrl = page.url();
  await page.setViewportSize({ width: 360, height: 800 });
  for (const path of ["", "/edit", "/credentials", "/credentials?user=ada"]) {
    const response = await page.goto(`${serverUrl}${path}`);
    expect((await response.body()).length, path).toBeLessThan(60 * 1024);
    await expectNoViolations(page);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow, path).toBeLessThanOrEqual(0);
  }
});

tcpTest("a reader sees no button and opens none of the pages", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, READER);
  await page.goto(`${origin}/console/servers/hostile`);
  for (const name of ["Edit", "Credentials", "Log in"]) {
    await expect(page.getByRole("main").getByText(name, { exact: true })).toHaveCount(0);
  }
  for (const path of ["edit", "credentials"]) {
    const response = await page.goto(`${origin}/console/servers/hostile/${path}`);
    expect(response.status(), path).toBe(403);
  }
  const csrf = await page.locator("input[name=csrf]").first().getAttribute("value");
  for (const path of ["edit", "credentials", "login"]) {
    const response = await page.request.post(`${origin}/console/servers/hostile/${path}`, {
      headers: { origin },
      form: { csrf, action: "remove", user: "ada" },
    });
    expect(response.status(), path).toBe(403);
  }
  const response = await page.goto(`${origin}/console/oauth/finish?code=a&state=b`);
  expect(response.status()).toBe(403);
});

tcpTest("a server of the configuration file is not edited", async ({ page, tcp: { origin } }) => {
  await signIn(page, origin, ADMIN);
  await page.goto(`${origin}/console/servers/hostile`);
  await expect(page.getByRole("link", { name: "Edit", exact: true })).toHaveCount(0);
  const response = await page.goto(`${origin}/console/servers/hostile/edit`);
  expect(response.status()).toBe(409);
  await expect(page.getByText("change the server in the file")).toBeVisible();
});

tcpTest("the redirect of an authorization server needs no session and does nothing alone", async ({ page, tcp: { origin } }) => {
  const response = await page.request.get(`${origin}/console/oauth/callback?code=a%22b&state=c&other=d`);
  expect(response.status()).toBe(200);
  const text = await response.text();
  expect(text).toContain("./finish?code=a%22b&amp;state=c");
  expect(text).not.toContain("other");
});
