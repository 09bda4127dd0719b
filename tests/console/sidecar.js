// Starts a sidecar with MCP servers, and the console for it.
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect } from "@playwright/test";
import { startHostileRegistry } from "./hostile-registry.js";
import { startHostileServer } from "./hostile-server.js";

const { PILLION, PILLION_ROOT } = process.env;
const PEERS = join(PILLION_ROOT, "tests/peers/start");

/** The program that is a fake language model. Without the program, the sidecar has no model. */
export const FAKE_LLM = process.env.PILLION_FAKE_LLM ?? join(PILLION_ROOT, "target/debug/examples/fake-llm");

/** Returns the entry of the configuration for a stdio server of tests/peers. */
function peerEntry(label, peer) {
  const [command, ...args] = execFileSync(PEERS, ["--command", peer], { encoding: "utf8" }).trim().split("\n");
  return `[[mcp_servers]]\nlabel = "${label}"\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
}

/** Waits for the first line of a program's output that matches, and returns the match. */
function waitForLine(stream, pattern) {
  return new Promise((resolve, reject) => {
    const printed = [];
    const lines = createInterface({ input: stream });
    lines.on("line", (line) => {
      printed.push(line);
      const match = line.match(pattern);
      if (match !== null) resolve(match);
    });
    lines.on("close", () => reject(new Error(`the program ended before it printed ${pattern}: ${printed.join("\n")}`)));
  });
}

/** A running sidecar. */
export class Sidecar {
  constructor() {
    this.directory = mkdtempSync(join(tmpdir(), "pillion-console-"));
    this.socket = join(this.directory, "pillion.sock");
    this.programs = [];
  }

  /** With `isHarmless`, the hostile server is not configured. */
  async start(settings = "", { hasModel = existsSync(FAKE_LLM), isHarmless = false } = {}) {
    this.hostile = await startHostileServer();
    this.registry = await startHostileRegistry(this.hostile.url);
    const model = hasModel ? await this.startModel() : "";
    const config = join(this.directory, "pillion.toml");
    writeFileSync(
      config,
      [
        settings,
        `[vault]\nkey_env = "PILLION_VAULT_KEY"`,
        `[store]\nlocation = "${join(this.directory, "pillion.db")}"`,
        // Each request of the console is sent to the registry, if it can be reached.
        `[registry]\nurl = "${this.registry.url}"\nmirror_ttl_ms = 1`,
        `[tools.roll_dice]\nrequire_approval = "always"`,
        model,
        peerEntry("everything", "everything-stdio"),
        peerEntry("python", "mcp2-stdio"),
        isHarmless ? "" : `[[mcp_servers]]\nlabel = "hostile"\nurl = "${this.hostile.url}"\n`,
      ].join("\n\n"),
    );
    const environment = { ...process.env, PILLION_VAULT_KEY: Buffer.alloc(32, 7).toString("base64"), PILLION_TOKENS: "reader read reader-token-0123456789;admin admin admin-token-0123456789" };
    const daemon = spawn(PILLION, ["serve", "--config", config, "--socket", this.socket], { env: environment, stdio: ["ignore", "ignore", "pipe"] });
    this.programs.push(daemon);
    this.log = [];
    daemon.stderr.on("data", (data) => this.log.push(data.toString()));
    await waitForLine(daemon.stderr, /Listening on/);
    daemon.stderr.resume();
    return this;
  }

  /** Starts the fake language model. Returns its entries of the configuration. */
  async startModel() {
    const program = spawn(FAKE_LLM, [], { stdio: ["pipe", "pipe", "inherit"] });
    this.programs.push(program);
    const [url] = await waitForLine(program.stdout, /^http\S+$/);
    return `[[providers]]\nname = "fake"\nbase_url = "${url}"\nmax_retries = 0\n\n[[models]]\nid = "demo"\nprovider = "fake"\ntools = { function_calling = true, mcp = true }`;
  }

  /** Runs a command of the program against this sidecar. */
  run(...args) {
    return execFileSync(PILLION, [...args, "--socket", this.socket], { encoding: "utf8" });
  }

  /** Runs `pillion console`. Returns its sign-in link. */
  async openConsole(...args) {
    const program = spawn(PILLION, ["console", "--socket", this.socket, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    this.programs.push(program);
    const [, link] = await waitForLine(program.stdout, /(http:\/\/\S+)/);
    return link;
  }

  async stop() {
    for (const program of this.programs) program.kill();
    this.hostile.stop();
    await this.registry.stop();
    await Promise.all(this.programs.map((program) => new Promise((resolve) => (program.exitCode === null ? program.on("exit", resolve) : resolve()))));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** `sidecar` runs for all tests of a file. `consolePage` is a page that is signed in, at the home page. */
export const test = base.extend({
  sidecar: [
    async ({}, use) => {
      const sidecar = await new Sidecar().start();
      await use(sidecar);
      await sidecar.stop();
    },
    { scope: "worker" },
  ],
  consolePage: async ({ page, sidecar }, use) => {
    const problems = [];
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => {
      const { hostname } = new URL(request.url());
      if (hostname !== "127.0.0.1") problems.push(`request to ${request.url()}`);
    });
    await page.goto(await sidecar.openConsole("--user", "ada"));
    await page.waitForURL("**/console/home");
    await use(page);
    expect(await page.evaluate(() => globalThis.attacked)).toBeUndefined();
    expect(problems).toEqual([]);
  },
});

export { expect };
