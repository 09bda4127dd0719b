"""The tools that every Python peer offers."""

import asyncio
import random
import re

from pydantic import BaseModel


class Rolled(BaseModel):
    """The structured content of `roll`."""

    dice: str
    rolls: list[int]
    total: int


def register(server, Context) -> None:
    """Adds the tools to an `MCPServer` (mcp 2) or a `FastMCP` (mcp 1, fastmcp)."""

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    @server.tool()
    def echo(text: str) -> str:
        """Gives the text back as it came."""
        return text

    @server.tool()
    async def slow(ctx: Context, seconds: float = 1.0) -> str:
        """Waits, saying four times how far it is, then answers."""
        for step in range(4):
            await asyncio.sleep(seconds / 4)
            await ctx.report_progress(step + 1, 4, f"step {step + 1}")
        return f"waited {seconds} s"

    @server.tool()
    def fail(message: str = "this tool always fails") -> str:
        """Raises, so that the result has isError."""
        raise ValueError(message)

    @server.tool()
    def unicode() -> str:
        """Text beyond ASCII: two scripts, a character outside the BMP, a line separator."""
        return "grüße 世界 🎲 \u2028 end"

    @server.tool()
    def roll(dice: str) -> Rolled:
        """Rolls dice such as 2d6 and gives {dice, rolls, total}."""
        match = re.fullmatch(r"(\d{0,2})d(\d{1,4})", dice.strip().lower())
        if not match or int(match[2]) == 0:
            raise ValueError(f"Invalid dice notation: {dice}")
        rolls = [random.randint(1, int(match[2])) for _ in range(int(match[1] or "1"))]
        return Rolled(dice=dice, rolls=rolls, total=sum(rolls))

    @server.tool()
    def nothing() -> None:
        """Takes no arguments and answers with no content."""
