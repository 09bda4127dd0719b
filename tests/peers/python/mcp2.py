"""PyPI mcp 2.x, every revision up to 2026-07-28: mcp2.py streamable-http|sse|stdio [PORT]."""

import sys
from typing import Annotated

import memos
import tools
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp_types import Completion, CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

transport = sys.argv[1]
server = MCPServer(f"mcp2-{transport}", log_level="WARNING")
tools.register(server, Context)
memos.register(server, Completion)


class Person(BaseModel):
    name: str


def person() -> Elicit[Person]:
    return Elicit("What is your name?", Person)


def greeting() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))
    return Sample([message], max_tokens=20)


@server.tool()
def ask(answer: Annotated[ElicitationResult[Person], Resolve(person)]) -> str:
    """Asks the user for a name (elicitation)."""
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action


@server.tool()
def sample(answer: Annotated[CreateMessageResult, Resolve(greeting)]) -> str:
    """Asks the client's model for a greeting (sampling)."""
    return answer.content.text


if transport == "stdio":
    server.run()
else:
    server.run(transport=transport, host="127.0.0.1", port=int(sys.argv[2]))
