#!/usr/bin/env python3
"""A conforming MCP server (Streamable HTTP, 2025-11-25, without sessions), used by the examples in
docs/. Prints its port and serves until its standard input is closed.
"""

import json

import serving

TOOLS = [
    {
        "name": "roll",
        "description": "Rolls dice",
        "inputSchema": {"type": "object", "properties": {"dice": {"type": "string"}}, "required": ["dice"]},
        "outputSchema": {
            "type": "object",
            "properties": {"total": {"type": "integer"}, "rolls": {"type": "array", "items": {"type": "integer"}}},
            "required": ["total", "rolls"],
        },
    },
    {"name": "echo", "description": "Says what it is told", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "not a name", "description": "Has a schema that models cannot use", "inputSchema": {"type": "string"}},
]

# The dice always show these numbers.
ROLLS = {"1d20": [15], "2d6": [4, 2]}


def text(said):
    return {"content": [{"type": "text", "text": said}]}


def roll(arguments):
    dice = arguments.get("dice")
    if dice not in ROLLS:
        return {**text(f"There are no dice {dice}"), "isError": True}
    rolls = ROLLS[dice]
    return {**text(f"{dice}: {sum(rolls)}"), "structuredContent": {"total": sum(rolls), "rolls": rolls}}


CALLS = {"roll": roll, "echo": lambda arguments: text(arguments.get("text", ""))}


def answer_to(method, params):
    if method == "initialize":
        return {"result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "dice", "version": "1.0.0"},
        }}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method != "tools/call":
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}
    if params["name"] not in CALLS:
        return {"error": {"code": -32602, "message": f"Unknown tool: {params['name']}"}}
    return {"result": CALLS[params["name"]](params.get("arguments", {}))}


class Handler(serving.Handler):
    def do_GET(self):
        self.send_error(405)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.answer(202, "application/json", b"")
            return
        answer = {"jsonrpc": "2.0", "id": request["id"], **answer_to(request["method"], request.get("params", {}))}
        self.answer(200, "application/json", json.dumps(answer).encode())


if __name__ == "__main__":
    serving.serve(Handler)
