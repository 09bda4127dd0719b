// Loaded before a peer with `node --require`: the published servers listen on all interfaces, and
// some on a fixed port. With this script, they listen on 127.0.0.1 and PILLION_PEER_PORT, or
// MCP_AUTH_PORT if they request exactly that port.
"use strict";

const net = require("node:net");

// Node 18 in Debian 12 does not define this global for programs; the SDK uses it.
globalThis.crypto ??= require("node:crypto").webcrypto;

const ports = [process.env.PILLION_PEER_PORT, process.env.MCP_AUTH_PORT].map(Number);
const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...given) {
  const callback = given.find((argument) => typeof argument === "function");
  const [first, second] = ports;
  const port = Number(given[0]) === second ? second : first;
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new Error("PILLION_PEER_PORT must be a port number");
  }
  return listen.call(this, { port, host: "127.0.0.1" }, callback);
};
