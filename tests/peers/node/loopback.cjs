// Loaded before a peer with `node --require`: the published servers listen on every
// interface, and some on a fixed port. Here they get 127.0.0.1 and PILLION_PEER_PORT.
"use strict";

const net = require("node:net");

// Node 18, which Debian 12 has, does not yet give programs this global; the SDK uses it.
globalThis.crypto ??= require("node:crypto").webcrypto;

const port = Number(process.env.PILLION_PEER_PORT);
if (!Number.isInteger(port) || port < 1 || port > 65535) {
  throw new Error("PILLION_PEER_PORT must be a port number");
}

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...given) {
  const callback = given.find((argument) => typeof argument === "function");
  return listen.call(this, { port, host: "127.0.0.1" }, callback);
};
