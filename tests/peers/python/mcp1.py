"""PyPI mcp 1.x, revisions up to 2025-11-25: mcp1.py TRANSPORT [PORT].

The transport is streamable-http, sse, stdio or websocket (removed in version 2).
"""

import sys

import memos
import tools
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel

transport = sys.argv[1]
port = int(sys.argv[2]) if transport != "stdio" else 0
server = FastMCP(f"mcp1-{transport}", host="127.0.0.1", port=port, log_level="WARNING")
tools.register(server, Context)
memos.register(server, Completion)


class Person(BaseModel):
    name: str


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the user for a name (elicitation)."""
    answer = await ctx.elicit("What is your name?", Person)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action


@server.tool()
async def sample(ctx: Context) -> str:
    """Asks the client's model for a greeting (sampling)."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))
    answer = await ctx.session.create_message(
        [message], max_tokens=20, related_request_id=ctx.request_id
    )
    return answer.content.text


def run_websocket() -> None:
    import warnings

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute

    warnings.filterwarnings("ignore", category=DeprecationWarning)  # it warns when imported
    from mcp.server.websocket import websocket_server

    class Endpoint:
        """A class, so that Starlette recognizes an ASGI application."""

        async def __call__(self, scope, receive, send):
            async with websocket_server(scope, receive, send) as (reader, writer):
                low_level = server._mcp_server
                await low_level.run(reader, writer, low_level.create_initialization_options())

    application = Starlette(routes=[WebSocketRoute("/ws", Endpoint())])
    uvicorn.run(application, host="127.0.0.1", port=port, log_level="warning")


if transport == "websocket":
    run_websocket()
else:
    server.run(transport=transport)
