#!/usr/bin/env python3
"""A fake MCP server over stdio whose only tool returns its process id.

With the argument `deaf`, it closes its input before it answers the first call.
"""

import json
import os
import sys
import time

is_deaf = sys.argv[1:] == ["deaf"]
# Unbuffered, so that no message is read without being answered.
for line in iter(lambda: sys.stdin.buffer.raw.readline(), b""):
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "stdio", "version": "1"}}
    elif request["method"] == "tools/call":
        if is_deaf:
            os.close(0)
        answer["result"] = {"content": [], "structuredContent": {"pid": os.getpid()}}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
    if is_deaf and request["method"] == "tools/call":
        time.sleep(5)
        break
