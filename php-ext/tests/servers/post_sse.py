#!/usr/bin/env python3
"""A fake MCP server of the legacy dialect: JSON-RPC requests by POST, event streams as responses, no
handshake. Prints its port and serves until it is killed.

The real servers are in tests/peers; this one shows what they cannot: the dialect, faults, and the
connection and credentials of a request.
"""

import itertools
import json
import time

import serving

TOOLS = [
    {
        "name": "roll",
        "description": "Rolls dice",
        "inputSchema": {
            "type": "object",
            "properties": {"dice": {"type": "string"}, "reason": {"type": "string"}},
            "required": ["dice"],
        },
    },
    {"name": "echo", "description": "Returns its arguments", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "slow", "description": "Takes its time", "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}}},
    {"name": "not a name", "description": "Has an illegal schema", "inputSchema": {"type": "string"}},
]

# More tools that /everything lists: tools that fail in some way.
ODD_TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in ("connection", "fails", "kept", "no_answer", "odd_error", "rpc_error", "status", "values")
]


def expensive_tools():
    """Tools whose patterns take long to compile, and one that is usual."""
    tools = list(TOOLS[:1])
    for tool in range(101):
        # Those of the last tool are within the limit.
        count = 100 if tool < 100 else 20
        properties = {
            f"p{nth}": {"type": "string", "pattern": "^(a{1,200}b{1,200}){1,3}" + str(nth)} for nth in range(count)
        }
        schema = {"type": "object", "properties": properties}
        tools.append({"name": f"t{tool}", "description": "Works", "inputSchema": schema})
    return tools


class Fault(Exception):
    """Ends the request abnormally; the argument is a function of the handler."""


class Handler(serving.Handler):
    connections = itertools.count(1)
    kept = itertools.count(1)

    def setup(self):
        super().setup()
        self.connection_number = next(self.connections)
        self.requests = 0

    def do_GET(self):
        self.send_error(405)

    def do_POST(self):
        self.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = json.loads(body)
        if "id" not in request:
            self.answer(202, "text/plain", b"")
            return
        try:
            answer = {"result": self.result(request, body)}
        except Fault as fault:
            fault.args[0](self, request)
            return
        except LookupError as error:
            answer = {"error": {"code": -32601, "message": f"Method not found: {error}"}}
        except ValueError as error:
            answer = {"error": error.args[0]}
        self.stream([{"jsonrpc": "2.0", "id": request["id"], **answer}])

    def stream(self, messages):
        events = b"".join(b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages)
        self.answer(200, "text/event-stream", events)

    def result(self, request, body):
        method = request["method"]
        if method == "tools/list" and self.path == "/expensive":
            return {"tools": expensive_tools()}
        if method == "tools/list":
            return {"tools": TOOLS + ODD_TOOLS if self.path == "/everything" else TOOLS}
        if method == "echo":
            return {"params": request.get("params"), "body": body.decode()}
        if method != "tools/call":
            raise LookupError(method)
        params = request["params"]
        return self.tool(params["name"], params["arguments"], body)

    def tool(self, name, arguments, body):
        if name == "roll":
            return {"total": 15, "rolls": [15]}
        if name in ("echo", "tool_name", "t100"):
            return {"arguments": arguments, "body": body.decode()}
        if name == "connection":
            return {
                "connection": self.connection_number,
                "requests": self.requests,
                "authorization": self.headers.get("Authorization"),
                "accept": self.headers.get("Accept"),
                "content_type": self.headers.get("Content-Type"),
            }
        if name == "kept":
            return {"nth": next(self.kept), "ttlMs": 60_000, "cacheScope": "public"}
        if name == "big":
            return {"items": [{"number": number} for number in range(arguments["items"])]}
        if name == "slow":
            time.sleep(arguments["seconds"])
            return {"slept": arguments["seconds"]}
        if name == "values":
            return {
                "empty": {}, "list": [1, "two", None, True, 1.0], "big": 2**80, "nested": {"5": "five", "05": "text"},
                "text": "grüße \U0001f600", "max": 2**63 - 1, "over": 2**63,
                "counted": {"0": "a", "1": ["b", {"0": {}}, {"1": "c"}, {"00": "d"}]},
            }
        if name == "fails":
            return {"isError": True, "content": [{"type": "text", "text": "It is broken"}]}
        if name == "rpc_error":
            raise ValueError({"code": -32600, "message": "Invalid Request", "data": {"why": "because"}})
        if name == "odd_error":
            raise ValueError({})
        if name == "status":
            if "json" in arguments:
                raise Fault(lambda handler, _: handler.answer(arguments["status"], "application/json", arguments["json"].encode()))
            raise Fault(lambda handler, _: handler.answer(arguments["status"], "text/plain", b"no"))
        if name == "no_answer":
            raise Fault(lambda handler, _: handler.answer(200, "text/event-stream", b"data: nothing\n\n"))
        if name == "notifies":
            notices = [{"jsonrpc": "2.0", "method": method, "params": {"empty": {}}} for method in arguments["methods"]]
            raise Fault(lambda handler, request: handler.stream(
                [*notices, {"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}]))
        if name == "deep":
            depth = arguments["depth"]
            raise Fault(lambda handler, request: handler.answer(
                200, "text/event-stream",
                b'data: {"jsonrpc":"2.0","id":' + json.dumps(request["id"]).encode()
                + b',"result":' + b"[" * depth + b"]" * depth + b"}\n\n"))
        raise LookupError(name)


if __name__ == "__main__":
    serving.serve(Handler)
