"""PyPI mcp 2.x over Streamable HTTP: POST /mcp, every revision up to 2026-07-28."""

import sys

from mcp.server.mcpserver import MCPServer
from tools import register

server = MCPServer("python-streamable", log_level="WARNING")
register(server)
server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
