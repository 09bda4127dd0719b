import { defineConfig } from "@playwright/test";

export default defineConfig({
  testMatch: "*.spec.js",
  outputDir: "results",
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [["list"]],
  use: {
    actionTimeout: 15_000,
    launchOptions: {
      executablePath: "/usr/bin/chromium",
      // Chromium's sandbox does not start as root, as which the tests may run.
      args: ["--no-sandbox"],
    },
  },
});
