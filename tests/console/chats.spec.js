// Chats with a fake model that calls the tools that the message names, and repeats any other message.
import { existsSync } from "node:fs";
import AxeBuilder from "@axe-core/playwright";
import { FAKE_LLM, Sidecar, expect, test } from "./sidecar.js";

const CALCULATE = 'calculator {"expression": "6 * 7"}';
const ROLL = 'roll_dice {"dice": "1d6"}';

test.describe.configure({ timeout: 120_000 });
test.skip(!existsSync(FAKE_LLM), "the example fake-llm of pillion-testkit is not built");

/** Opens the page of a new chat. */
async function openNewChat(page) {
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Chats" }).click();
  await page.getByRole("link", { name: "Start a chat" }).click();
  await expect(page.locator("h1")).toHaveText("Start a chat");
}

/** Sends a message on the page of a chat or of a new chat, and waits for the next page. */
async function send(page, message) {
  await page.getByLabel("Message").fill(message);
  await press(page, "Send");
}

/** Presses a button, and waits for the next page. The first chat waits for the tools of all servers. */
async function press(page, name) {
  const load = page.waitForEvent("load", { timeout: 45_000 });
  await page.getByRole("button", { name }).click({ noWaitAfter: true });
  await load;
}

/** Waits until a part of the chat's page has a text, and reloads the page while the model is responding. */
async function expectText(page, selector, text) {
  await expect(async () => {
    const reload = page.getByRole("link", { name: "Reload" });
    if ((await reload.count()) > 0) await reload.click({ timeout: 1000 });
    await expect(page.locator(selector)).toContainText(text, { timeout: 1000 });
  }).toPass({ timeout: 45_000 });
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a chat calls tools, waits for approvals, continues and is removed", async ({ page, sidecar }) => {
      await page.goto(await sidecar.openConsole("--user", `chatter-${javaScriptEnabled}`));
      await page.waitForURL("**/console/home");
      await openNewChat(page);
      await page.getByLabel("System prompt").fill("Be brief.");
      await press(page, "Send");
      await expect(page.getByText("Write a message.")).toBeVisible();
      await expect(page.getByLabel("System prompt")).toHaveValue("Be brief.");
      await send(page, CALCULATE);
      await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
      await expectText(page, "#conversation", /The tools say: .*42/);
      await expect(page.locator("#conversation")).toContainText("Be brief.");

      // The arguments and the result of the call are folded.
      const call = page.locator("#conversation details").first();
      await expect(call.getByText("6 * 7")).toBeHidden();
      await call.locator("summary").click();
      await expect(call.getByText("6 * 7")).toBeVisible();
      await page.getByRole("link", { name: "Show the call in the call log" }).click();
      await expect(page.locator("#arguments")).toContainText("6 * 7");
      await page.goBack();

      await send(page, "  ");
      await expect(page.getByText("Write a message.")).toBeVisible();
      await send(page, ROLL);
      await expectText(page, "#waiting-calls", "1d6");
      await send(page, "Are you there?");
      await expectText(page, "main", "continue the chat without a message after the decision");
      await expect(page.getByLabel("Message")).toHaveValue("Are you there?");
      await press(page, "Approve once");
      await expectText(page, "#facts", "answered");
      await expect(page.locator("#waiting-calls")).not.toContainText("1d6");

      await send(page, ROLL);
      await expectText(page, "#waiting-calls", "1d6");
      await press(page, "Deny");
      await expectText(page, "#facts", "answered");
      await expect(page.locator("#conversation")).toContainText("denied");

      await page.getByRole("link", { name: "Remove …" }).click();
      await page.getByRole("button", { name: "Remove the chat" }).click();
      await expect(page).toHaveURL(/\/chats$/);
      await expect(page.locator("#chats")).not.toContainText("6 * 7");
    });
  });
}

test("the page of a chat changes while it is open, and keeps what was typed", async ({ consolePage: page, context }) => {
  await openNewChat(page);
  await send(page, "first");
  await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
  await expectText(page, "#conversation", "You said: first");
  await page.getByLabel("Message").fill("a draft");
  const other = await context.newPage();
  await other.goto(page.url().split("#")[0]);
  const conversation = page.locator("#conversation");
  await send(other, "second");
  await expect(conversation).toContainText("You said: second");
  // What is open stays open during an update.
  await send(other, CALCULATE);
  await expect(conversation).toContainText("The tools say:");
  await conversation.locator("summary").first().click();
  await send(other, "third");
  await expect(conversation).toContainText("You said: third");
  await expect(conversation.locator("details").first()).toHaveAttribute("open", "");
  await expect(page.getByLabel("Message")).toHaveValue("a draft");
});

test("the text of a model is neither markup nor a link", async ({ consolePage: page }) => {
  await openNewChat(page);
  await send(page, "<script>globalThis.attacked = true</script> [x](javascript:attack) https://attacker.example \u202e");
  await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
  await expectText(page, "#conversation", "You said: <script>");
  await expect(page.locator("#conversation a")).toHaveCount(0);
  await expect(page.locator("#conversation .hidden-char").first()).toBeVisible();
});

test("a long text is read in pieces", async ({ consolePage: page }) => {
  await openNewChat(page);
  await send(page, `${"long ".repeat(4000)}the end`);
  await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
  await expectText(page, "#facts", "answered");
  const response = await page.goto(page.url().split("#")[0]);
  expect((await response.body()).length).toBeLessThan(60 * 1024);
  await page.getByRole("link", { name: /^Show all of part/ }).first().click();
  await page.getByRole("link", { name: "Continue reading" }).click();
  await page.getByRole("link", { name: "Continue reading" }).click();
  await expect(page.locator("main")).toContainText("the end");
  await page.getByRole("link", { name: "Back to the chat" }).click();
  await expect(page.locator("#facts")).toContainText("answered");
});

test("the pages of chats are accessible and narrow", async ({ consolePage: page }) => {
  await openNewChat(page);
  await send(page, ROLL);
  await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
  await expectText(page, "#waiting-calls", "1d6");
  const chat = page.url().split("#")[0];
  for (const url of [chat, `${chat}/remove`, `${chat}/parts/0`, new URL("../chats", chat).href, new URL("new", chat).href]) {
    await page.goto(url);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [url, id, nodes[0].html])).toEqual([]);
    await page.setViewportSize({ width: 360, height: 900 });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(overflow, url).toBeLessThanOrEqual(0);
  }
});

test("without a model, the pages say how to add one", async ({ page }) => {
  const sidecar = await new Sidecar().start("", { hasModel: false });
  try {
    await page.goto(await sidecar.openConsole());
    await page.waitForURL("**/console/home");
    await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Chats" }).click();
    await expect(page.getByText("[[models]]")).toBeVisible();
    await expect(page.getByRole("link", { name: "Start a chat" })).toHaveCount(0);
    await page.goto(new URL("chats/new", page.url()).href);
    await expect(page.getByText("[[models]]")).toBeVisible();
    await expect(page.getByRole("button", { name: "Send" })).toHaveCount(0);
  } finally {
    await sidecar.stop();
  }
});
