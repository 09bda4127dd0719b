"""Third-party clients for the tests of Pillion's MCP server: each lists, calls, reads and answers elicitations.

client.py URL [RESOURCE TEXT PROMPT]: the client of the MCP Python SDK, in both of its modes, and
fastmcp's. client.py --stdio PROGRAM [ARGUMENT...]: the same clients with a stdio server; they list and
call. Prints one line per client; exits with an error if a response is wrong.
"""

import asyncio
import sys

import fastmcp
from fastmcp.client.transports import StdioTransport
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

CALL = ("calculator", {"expression": "6 * 7"})


async def sdk(url: str, mode: str, resource: str, text: str, prompt: str) -> None:
    async with Client(url, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert "calculator" in [tool.name for tool in tools], tools
        called = await client.call_tool(*CALL)
        assert called.content[0].text == "42" and not called.is_error, called
        assert called.structured_content["data"]["result"] == 42, called
        failed = await client.call_tool("calculator", {"expression": "1/0"})
        assert failed.is_error and "division by zero" in failed.content[0].text, failed
        read = await client.read_resource(resource)
        assert text in read.contents[0].text, read
        assert prompt in [entry.name for entry in (await client.list_prompts()).prompts]
        filled = await client.get_prompt(prompt, {"name": "Ada"})
        assert "Ada" in filled.messages[0].content.text, filled
    print(f"mcp {mode}: {len(tools)} tools")


async def stdio(mode: str, program: str, arguments: list[str]) -> None:
    server = StdioServerParameters(command=program, args=arguments)
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        called = await client.call_tool(*CALL)
        assert called.content[0].text == "42" and not called.is_error, called
    print(f"mcp stdio {mode}: {' '.join(tool.name for tool in tools)}")


async def fast(server: object, name: str) -> None:
    async with fastmcp.Client(server) as client:
        tools = await client.list_tools()
        called = await client.call_tool(*CALL)
        assert called.content[0].text == "42", called
    print(f"fastmcp {name}: {len(tools)} tools")


async def main(arguments: list[str]) -> None:
    if arguments[0] == "--stdio":
        for mode in ("auto", "legacy"):
            await stdio(mode, arguments[1], arguments[2:])
        await fast(StdioTransport(arguments[1], arguments[2:]), "stdio")
        return
    for mode in ("auto", "legacy"):
        await sdk(arguments[0], mode, *arguments[1:])
    await fast(arguments[0], "http")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
