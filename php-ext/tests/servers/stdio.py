#!/usr/bin/env python3
"""A fake MCP server over stdio whose only tool tells its process id."""

import json
import os
import sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "stdio", "version": "1"}}
    elif request["method"] == "tools/call":
        answer["result"] = {"content": [], "structuredContent": {"pid": os.getpid()}}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
