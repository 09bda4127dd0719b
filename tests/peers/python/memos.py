"""The features of every Python peer besides tools: resources, a prompt and completion."""

NAMES = ["Ada", "Alan", "Barbara"]


def register(server, Completion) -> None:
    """Adds the features to an `MCPServer` (mcp 2) or a `FastMCP` (mcp 1, fastmcp)."""

    @server.resource("memo://welcome")
    def welcome() -> str:
        """A text that is always there."""
        return "Welcome!"

    @server.resource("memo://for/{name}")
    def memo(name: str) -> str:
        """A text for one person."""
        return f"A memo for {name}"

    @server.prompt()
    def greet(name: str) -> str:
        """Asks for a greeting."""
        return f"Please greet {name}."

    @server.completion()
    async def complete(ref, argument, context):
        """Completes the name in the prompt and in the template."""
        return Completion(values=[name for name in NAMES if name.startswith(argument.value)])
