"""Reads every list of an MCP server with third-party clients, and calls tools.

lists.py URL [TOOL...]: prints one line of JSON per client: its name, the names in each list, and for
each call the text, the structured content and whether it failed. Exits with an error if a client
cannot read a response. Runs with PyPI mcp 2.3, in both of its modes, and with 1.30.
"""

import asyncio
import json
import sys


def called(result) -> dict:
    old = hasattr(result, "isError")
    return {
        "text": [getattr(block, "text", None) for block in result.content],
        "structured": result.structuredContent if old else result.structured_content,
        "failed": bool(result.isError if old else result.is_error),
    }


async def read(client, name: str, tools: list[str]) -> None:
    lists = {
        "client": name,
        "tools": [tool.name for tool in (await client.list_tools()).tools],
        "resources": [entry.name for entry in (await client.list_resources()).resources],
        "prompts": [entry.name for entry in (await client.list_prompts()).prompts],
    }
    templates = await client.list_resource_templates()
    old = hasattr(templates, "resourceTemplates")
    templates = templates.resourceTemplates if old else templates.resource_templates
    lists["templates"] = [entry.name for entry in templates]
    lists["calls"] = {tool: called(await client.call_tool(tool, {})) for tool in tools}
    print(json.dumps(lists))


async def main(url: str, tools: list[str]) -> None:
    try:
        from mcp.client import Client
    except ImportError:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(url) as (reading, writing, _):
            async with ClientSession(reading, writing) as session:
                await session.initialize()
                await read(session, "mcp1", tools)
        return
    for mode in ("auto", "legacy"):
        async with Client(url, mode=mode) as client:
            await read(client, f"mcp2 {mode}", tools)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
