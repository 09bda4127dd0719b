"""PyPI fastmcp 4.x, every revision up to 2026-07-28.

fastmcp4.py http|sse|stdio [PORT [bearer|oauth]]: the bearer token is `let-me-in`; the OAuth
server is the MCP server itself and consents to everything.
"""

import sys

import memos
import tools
from fastmcp import Context, FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp_types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

transport, port, protection = (sys.argv[1:] + ["", ""])[:3]
auth = None
if protection == "bearer":
    auth = StaticTokenVerifier(tokens={"let-me-in": {"client_id": "pillion-tests", "scopes": []}})
elif protection == "oauth":
    auth = InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=ClientRegistrationOptions(enabled=True),
    )
server = FastMCP(f"fastmcp-{protection or transport}", auth=auth)
tools.register(server, Context)
memos.register(server, Completion)

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MESSAGE = SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))


def is_stateless(ctx: Context) -> bool:
    """Returns whether input is requested with a result, so that the client repeats the request with its answer."""
    return ctx.request_context.protocol_version >= "2026-07-28"


@server.tool(output_schema=None)
async def ask(ctx: Context):
    """Asks the user for a name (elicitation)."""
    if is_stateless(ctx):
        if not ctx.input_responses:
            params = ElicitRequestFormParams(message="What is your name?", requested_schema=FORM)
            return InputRequiredResult(input_requests={"name": ElicitRequest(params=params)})
        answer = ctx.input_responses["name"]
    else:
        answer = await ctx.session.elicit(
            "What is your name?", FORM, related_request_id=ctx.request_id
        )
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else answer.action


@server.tool(output_schema=None)
async def sample(ctx: Context):
    """Asks the client's model for a greeting (sampling)."""
    if is_stateless(ctx):
        if not ctx.input_responses:
            params = CreateMessageRequestParams(messages=[MESSAGE], max_tokens=20)
            return InputRequiredResult(input_requests={"text": CreateMessageRequest(params=params)})
        answer = ctx.input_responses["text"]
    else:
        answer = await ctx.session.create_message(
            [MESSAGE], max_tokens=20, related_request_id=ctx.request_id
        )
    return answer.content.text


options = {} if transport == "stdio" else {"host": "127.0.0.1", "port": int(port)}
server.run(transport=transport, show_banner=False, log_level="warning", **options)
