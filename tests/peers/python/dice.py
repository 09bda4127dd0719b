"""An MCP server of the official Python SDK that rolls dice, over stdio, for scripts/demo."""

import random
import re

from mcp.server.fastmcp import FastMCP

server = FastMCP("dice", log_level="WARNING")


@server.tool()
def roll(dice: str) -> str:
    """Rolls dice, such as 2d6."""
    match = re.fullmatch(r"(\d{1,2})d(\d{1,3})", dice)
    if match is None or "0" in match.groups():
        raise ValueError("dice are written as 2d6")
    count, sides = map(int, match.groups())
    rolls = [random.randint(1, sides) for _ in range(count)]
    return f"{dice}: {rolls} = {sum(rolls)}"


server.run(transport="stdio")
