// Forged requests, and sessions with less than all permissions.
import { request } from "node:http";
import { expect, test } from "./sidecar.js";

/** Sends a request with exactly these headers. Returns the status and the headers of the response. */
function send(url, { method = "GET", headers = {}, body = "" } = {}) {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers: { ...headers, "content-length": Buffer.byteLength(body) } }, (response) => {
      response.resume();
      resolve({ status: response.statusCode, headers: response.headers });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

/** Signs in without a browser. Returns the origin, the cookie and the CSRF token. */
async function signIn(sidecar) {
  const link = await sidecar.openConsole();
  const { origin } = new URL(link);
  const response = await fetch(link);
  const cookie = response.headers.get("set-cookie").split(";")[0];
  const page = await fetch(`${origin}/console/home`, { headers: { cookie } });
  const [, csrf] = (await page.text()).match(/name="csrf" value="([^"]+)"/);
  return { link, origin, cookie, csrf };
}

const FORM = { "content-type": "application/x-www-form-urlencoded" };

test("a forged form is rejected, and the honest one accepted", async ({ sidecar }) => {
  const { origin, cookie, csrf } = await signIn(sidecar);
  const url = `${origin}/console/tools/calculator`;
  const body = new URLSearchParams({ csrf, arguments: '{"expression": "1"}' }).toString();
  const honest = { ...FORM, cookie, origin };
  const { host } = new URL(origin);
  const status = async (headers, sentBody = body) => (await send(url, { method: "POST", headers, body: sentBody })).status;
  expect(await status(honest)).toBe(200);
  expect(await status({ ...honest, cookie: "" })).toBe(401);
  expect(await status({ ...honest, cookie: "pillion_console=pln_forged" })).toBe(401);
  expect(await status(honest, "arguments=%7B%7D")).toBe(403);
  expect(await status(honest, body.replace(csrf, `${csrf}x`))).toBe(403);
  expect(await status({ ...FORM, cookie })).toBe(403);
  expect(await status({ ...honest, origin: "https://attacker.example" })).toBe(403);
  expect(await status({ ...honest, origin: "null" })).toBe(403);
  expect(await status({ ...honest, "sec-fetch-site": "cross-site" })).toBe(403);
  expect(await status({ ...honest, host: "attacker.example", origin: "http://attacker.example" })).toBe(421);
  expect(await status({ ...honest, host: `attacker.example:${host.split(":")[1]}` })).toBe(421);
});

test("the console's port serves nothing but the console", async ({ sidecar }) => {
  const { origin, cookie } = await signIn(sidecar);
  for (const path of ["/api/v1/tools/", "/mcp", "/metrics", "/console/../api/v1/tools/", "//api/v1/tools/"]) {
    const { status } = await send(`${origin}${path}`, { headers: { cookie } });
    expect(status, path).toBe(404);
  }
  // Only a process on the socket can name a user; the headers of a browser cannot.
  const headers = { "x-pillion-console-user": "eve", "x-pillion-console-csrf": "x".repeat(40) };
  const { status } = await send(`${origin}/console/calls`, { headers });
  expect(status).toBe(303);
});

test("a sign-in link works once, and its session ends with the sign-out", async ({ sidecar }) => {
  const { link, origin, cookie, csrf } = await signIn(sidecar);
  expect((await send(link)).status).toBe(403);
  const body = new URLSearchParams({ csrf }).toString();
  const { status } = await send(`${origin}/console/sign-out`, { method: "POST", headers: { ...FORM, cookie, origin }, body });
  expect(status).toBe(303);
  expect((await send(`${origin}/console/home`, { headers: { cookie } })).status).toBe(303);
});

test("every response forbids scripts and frames of others", async ({ sidecar }) => {
  const { origin, cookie } = await signIn(sidecar);
  for (const path of ["home", "sign-in", "no-such-page", "calls/unknown", "live?types=call,nothing"]) {
    const { headers } = await send(`${origin}/console/${path}`, { headers: { cookie } });
    const policy = headers["content-security-policy"];
    expect(policy, path).toContain("default-src 'none'");
    expect(policy, path).toContain("frame-ancestors 'none'");
    expect(policy, path).not.toContain("unsafe");
    expect(headers["x-content-type-options"], path).toBe("nosniff");
    expect(headers["cache-control"], path).toBe("no-store");
  }
});

test("another page cannot show the console in a frame", async ({ context, page, sidecar }) => {
  await page.goto(await sidecar.openConsole());
  await page.waitForURL("**/console/home");
  const attacker = await context.newPage();
  await attacker.setContent(`<iframe src="${page.url()}"></iframe>`);
  await expect.poll(() => attacker.frames()[1].url()).toContain("chrome-error");
});
