// A sidecar that listens on TCP, with tokens of the configuration and of the store.
import { createServer } from "node:net";
import { Sidecar, expect, test as base } from "./sidecar.js";

/** The tokens of the configuration, which sidecar.js sets. */
export const ADMIN = "admin-token-0123456789";
export const READER = "reader-token-0123456789";

function findFreePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Signs in with an access token. */
export async function signIn(page, origin, token) {
  await page.goto(`${origin}/console/sign-in`);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/console/home");
}

/** Sends a request to the REST API with a token. Returns the status. */
export async function listTools(origin, token) {
  const { status } = await fetch(`${origin}/api/v1/tools/`, { headers: { authorization: `Bearer ${token}` } });
  return status;
}

/** `tcp` is a sidecar that serves the API and the console at `origin`. */
export const test = base.extend({
  tcp: [
    async ({}, use) => {
      const address = `127.0.0.1:${await findFreePort()}`;
      const settings = `[tcp]\nlisten = "${address}"\ntokens_env = "PILLION_TOKENS"\ntokens_store = true\n\n[console]\ntcp = true`;
      const sidecar = await new Sidecar().start(settings);
      await use({ sidecar, origin: `http://${address}` });
      await sidecar.stop();
    },
    { scope: "worker" },
  ],
});

export { expect };
