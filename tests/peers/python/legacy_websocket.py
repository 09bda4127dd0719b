"""PyPI mcp 1.x over WebSocket, which its version 2 has no more: /ws."""

import sys
import warnings

import uvicorn
from mcp.server.fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from tools import register

warnings.filterwarnings("ignore", category=DeprecationWarning)
from mcp.server.websocket import websocket_server  # noqa: E402  (it warns when imported)

server = FastMCP("python-websocket", log_level="WARNING")
register(server)


class Endpoint:
    """A class, so that Starlette takes it for the application that it is."""

    async def __call__(self, scope, receive, send):
        async with websocket_server(scope, receive, send) as (reader, writer):
            low_level = server._mcp_server
            await low_level.run(reader, writer, low_level.create_initialization_options())


application = Starlette(routes=[WebSocketRoute("/ws", Endpoint())])
uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
