#!/usr/bin/env python3
"""A fake MCP server with sessions (Streamable HTTP, 2025-06-18) that reports its clients.

Prints its port and serves until its standard input is closed. GET /seen returns the sessions that
were opened and ended, and the number of open connections.
"""

import json
import threading
import time
import uuid

import serving

lock = threading.Lock()
seen = {"opened": [], "ended": [], "connections": 0}


class Handler(serving.Handler):
    def setup(self):
        super().setup()
        self.is_client = False

    def finish(self):
        if self.is_client:
            with lock:
                seen["connections"] -= 1
        super().finish()

    def do_GET(self):
        if self.path == "/seen":
            with lock:
                self.say(200, seen)
        else:
            self.send_error(405)

    def do_DELETE(self):
        with lock:
            seen["ended"].append(self.headers.get("Mcp-Session-Id"))
        self.say(200, {})

    def do_POST(self):
        if not self.is_client:
            self.is_client = True
            with lock:
                seen["connections"] += 1
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.say(202, None)
            return
        headers = {}
        if request["method"] == "initialize":
            session = uuid.uuid4().hex
            headers["Mcp-Session-Id"] = session
            with lock:
                seen["opened"].append(session)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "sessions", "version": "1"}}
        elif request["method"] == "tools/list":
            result = {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]}
        elif request["method"] == "tools/call":
            time.sleep(request["params"].get("arguments", {}).get("seconds", 0))
            result = {"session": self.headers.get("Mcp-Session-Id"), "authorization": self.headers.get("Authorization")}
        else:
            self.say(200, {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
        self.say(200, {"jsonrpc": "2.0", "id": request["id"], "result": result}, headers)

    def say(self, status, body, headers={}):
        text = b"" if body is None else json.dumps(body).encode()
        self.answer(status, "application/json", text, headers)


if __name__ == "__main__":
    serving.serve(Handler)
