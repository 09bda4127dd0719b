#!/usr/bin/env python3
"""A fake MCP server over stdio that sends requests to its client during a tool call, at a time that a test
controls.

- `ask` sends a request at once, and returns the answer; creates the file `mark` after the request.
- `ask_when_held` reports progress, and sends a request when there is a call of `hold`, which never ends.
- `answer` returns the answer to any request, as soon as there is one.
- `remark` reports progress and never ends.
- `chatter` ends at once, and the server keeps sending notifications.
"""

import json
import sys
import threading
import time

TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in ("ask", "ask_when_held", "hold", "answer", "remark", "chatter")
]

asked = {}
answers = []
waiting_for_hold = []
waiting_for_answer = []
held = False
turn = threading.Lock()


def send(message):
    with turn:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def chatter():
    while True:
        send({"method": "notifications/chatter"})
        time.sleep(0.0005)


def text(request, value):
    result = {"content": [{"type": "text", "text": json.dumps(value)}]}
    send({"id": request["id"], "result": result})


def ask(request):
    method = request["params"]["arguments"].get("method", "sampling/createMessage")
    number = f"question {len(asked)}"
    asked[number] = request
    content = {"role": "user", "content": {"type": "text", "text": "why?"}}
    params = {"messages": [content], "maxTokens": 1, "message": "why?",
              "requestedSchema": {"type": "object", "properties": {}}}
    send({"id": number, "method": method, "params": params})
    if mark := request["params"]["arguments"].get("mark"):
        open(mark, "w").close()


def progress(request):
    token = request["params"].get("_meta", {}).get("progressToken")
    if token is not None:
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})


def call(request):
    global held
    name = request["params"]["name"]
    if name == "ask":
        ask(request)
    elif name == "ask_when_held":
        waiting_for_hold.append(request)
        progress(request)
    elif name == "hold":
        held = True
    elif name == "chatter":
        threading.Thread(target=chatter, daemon=True).start()
        text(request, "done")
    elif name == "remark":
        progress(request)
    elif name == "answer":
        waiting_for_answer.append(request)
    while held and waiting_for_hold:
        ask(waiting_for_hold.pop())


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None:
        answer = message.get("result", message.get("error"))
        answers.append(answer)
        text(asked[message["id"]], answer)
    elif method == "initialize":
        send({"id": message["id"], "result": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "asks", "version": "1"}, }})
    elif method == "tools/call":
        call(message)
    elif method == "tools/list":
        send({"id": message["id"], "result": {"tools": TOOLS}})
    elif "id" in message:
        send({"id": message["id"], "result": {}})
    while answers and waiting_for_answer:
        text(waiting_for_answer.pop(), answers[-1])
