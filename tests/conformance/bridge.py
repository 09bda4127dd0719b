"""Forwards TCP connections on 127.0.0.1 to a Unix socket.

bridge.py PORT SOCKET: prints a line once it listens. For the conformance suite, which needs a URL, and
for clients without support for Unix sockets.
"""

import asyncio
import sys


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # The other side has gone.
    finally:
        writer.close()


async def main(port: int, socket: str) -> None:
    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_unix_connection(socket)
        await asyncio.gather(forward(client, to_server), forward(server, to_client))

    listener = await asyncio.start_server(serve, "127.0.0.1", port)
    print("listening", flush=True)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
