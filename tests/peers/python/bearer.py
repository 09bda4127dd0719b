"""PyPI fastmcp over Streamable HTTP behind a bearer token: POST /mcp, token `let-me-in`."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from tools import register

tokens = {"let-me-in": {"client_id": "pillion-tests", "scopes": []}}
server = FastMCP("python-bearer", auth=StaticTokenVerifier(tokens=tokens))
register(server)
server.run(
    transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning"
)
