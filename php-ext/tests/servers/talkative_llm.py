#!/usr/bin/env python3
"""A language model with OpenAI's streamed chat completions and very long answers. The last message is a
number of bytes: the model sends that much text, and then calls `shout`; with 0, the text is endless.
The model answers the result of the call with `Done.`

Prints its port and serves until its standard input is closed. GET /seen returns the bytes sent so
far, and the number of unfinished answers.
"""

import json
import threading

import serving

WORDS = "word " * 20
lock = threading.Lock()
seen = {"sent": 0, "talking": 0}


def event(delta, finish=None):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


MANY_WORDS = event({"content": WORDS}) * 100


class Handler(serving.Handler):
    def do_GET(self):
        with lock:
            body = json.dumps(seen).encode()
        self.answer(200, "application/json", body)

    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with lock:
            seen["talking"] += 1
        try:
            self.talk(messages[-1])
        finally:
            with lock:
                seen["talking"] -= 1

    def talk(self, last):
        if last["role"] == "tool":
            self.send(event({"content": "Done."}) + event({}, "stop") + b"data: [DONE]\n\n")
            return
        left = int(last["content"]) or float("inf")
        while left > 0:
            self.send(MANY_WORDS)
            left -= len(WORDS) * 100
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "shout", "arguments": '{"text": "hi"}'}}
        self.send(event({"tool_calls": [call]}) + event({}, "tool_calls") + b"data: [DONE]\n\n")

    def send(self, data):
        self.wfile.write(data)
        with lock:
            seen["sent"] += len(data)


if __name__ == "__main__":
    serving.serve(Handler)
