"""PyPI mcp 1.x over HTTP+SSE (2024-11-05): GET /sse, POST /messages/."""

import sys

from mcp.server.fastmcp import FastMCP
from tools import register

server = FastMCP("python-sse", host="127.0.0.1", port=int(sys.argv[1]), log_level="WARNING")
register(server)
server.run(transport="sse")
