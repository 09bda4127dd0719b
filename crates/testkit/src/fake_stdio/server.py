"""A small MCP server with the stdio transport and scripted faults.

Flags set the behavior from the start; the names of called tools set the behavior of one call.
"""

import json
import os
import signal
import subprocess
import sys
import time

flags = sys.argv[1:]
for flag in list(flags):
    # Simulates an upgrade: the server is modern if the file exists.
    if flag.startswith("modern-if:") and os.path.exists(flag.partition(":")[2]):
        flags.append("modern")
if "exit-at-once" in flags:
    sys.stderr.write("cannot find the configuration\n")
    sys.exit(7)
if "ignore-term" in flags:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "slow-start" in flags:
    time.sleep(3)
if "silent" in flags:
    while True:
        time.sleep(1000)

out = sys.stdout.buffer
# The methods received so far.
seen = []
# Not empty after the server has forgotten its session.
forgotten = []
# The calls of the tool `lost`, which rejects each call like a server that has forgotten its session.
lost = []


def line(text):
    out.write(text.encode() + b"\n")
    out.flush()


def make_noise(id):
    for flag in flags:
        kind, _, text = flag.partition(":")
        if kind == "before-message":
            out.write(text.encode("utf-8", "surrogateescape"))
        elif kind == "before-line":
            line(text.replace("ID", json.dumps(id)))


def answer(id, result):
    make_noise(id)
    # The result first and the id last, as many servers write it.
    line(json.dumps({"result": result, "jsonrpc": "2.0", "id": id}))


def reject(id):
    error = {"code": -32001, "message": "Session not found"}
    line(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))


def sleepers(count, **options):
    return [subprocess.Popen(["sleep", "1000"], **options).pid for _ in range(count)]


def call(id, name, arguments):
    result = {"total": 15, "rolls": [15]}
    if name == "state":
        blocked = [text for text in open("/proc/self/status") if text.startswith("SigBlk")]
        result = {
            "pid": os.getpid(),
            "group": os.getpgrp(),
            "env": dict(os.environ),
            "cwd": os.getcwd(),
            "arguments": flags,
            "blocked_signals": blocked[0].split()[1],
            "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        }
    elif name == "crash":
        sys.stderr.write("starting\nthe disk is full: key s3cret\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "flood":
        for _ in range(arguments["lines"]):
            os.write(2, b"x" * 1023 + b"\n")
    elif name == "fork":
        null = subprocess.DEVNULL
        result = {"pids": sleepers(3, stdin=null, stdout=null, stderr=null)}
    elif name == "fork-holding":
        # The child has left the process group and holds all pipes of this process.
        result = {"pids": sleepers(1, start_new_session=True)}
    elif name == "silent":
        return
    elif name == "forget":
        forgotten.append(True)
    elif name == "lost":
        lost.append(True)
        return reject(id)
    elif name == "count-lost":
        result = len(lost)
    elif name == "garbage":
        for text in ("", "  ", "Hello!", "{", "[1]", '{"id":{}}', "null", '{"jsonrpc":"2.0"}'):
            line(text)
        out.write(b"\xff\xfe\n")
        line('{"jsonrpc":"2.0","id":999999,"result":"nobody asked"}')
    elif name == "not-a-number":
        line('{"jsonrpc":"2.0","result":NaN,"id":%d}' % id)
        return
    elif name == "large":
        result = "x" * arguments["bytes"]
    elif name == "endless":
        while True:
            out.write(b"x" * 65536)
    elif name == "mute":
        os.close(1)
        return
    elif name == "deaf":
        os.close(0)
        answer(id, result)
        time.sleep(1000)
    elif name == "slow":
        time.sleep(arguments["seconds"])
    elif name == "ask":
        line('{"jsonrpc":"2.0","id":"q1","method":"ping"}')
        result = json.loads(sys.stdin.readline())
    elif name == "batch":
        line('[{"method":"notifications/x"},{"id":%d,"result":{"batch":true}}]' % id)
        return
    elif name == "echo":
        result = arguments
    answer(id, result)


try:
    for text in iter(sys.stdin.readline, ""):
        message = json.loads(text)
        id, method, params = message.get("id"), message.get("method"), message.get("params")
        seen.append(method)
        if id is None:
            pass
        elif forgotten:
            reject(id)
        elif "modern" in flags and method == "server/discover":
            answer(id, {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "public",
            })
        elif "modern" in flags and "_meta" not in params:
            line(json.dumps({
                "jsonrpc": "2.0", "id": id,
                "error": {
                    "code": -32022, "message": "Unsupported protocol version",
                    "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"},
                },
            }))
        elif "strict" in flags and "modern" not in flags and "initialize" not in (method, *seen):
            line(json.dumps({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": -32602, "message": "Received before the initialization"},
            }))
        elif "modern" in flags and method == "tools/call" and params["name"] == "meta":
            answer(id, {"meta": params["_meta"], "seen": seen})
        elif method == "tools/call" and params["name"] == "seen":
            answer(id, {"seen": seen})
        elif method == "initialize":
            answer(id, {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            })
            if "exit-after-hello" in flags:
                sys.exit(0)
        elif method == "server/discover" and "exit-on-discover" in flags:
            sys.exit(1)
        elif method == "server/discover" and "silent-on-discover" in flags:
            pass
        elif method == "tools/call":
            call(id, params["name"], params["arguments"])
        elif method == "tools/list":
            names = ["roll"]
            for flag in flags:
                names += flag.removeprefix("list:").split(",") if flag.startswith("list:") else []
            answer(id, {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]})
        elif method == "ping":
            answer(id, {})
        else:
            line(json.dumps({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "Method not found"},
            }))
except BrokenPipeError:
    os._exit(0)

while "ignore-end" in flags:
    time.sleep(1000)
