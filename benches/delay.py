"""A TCP relay that adds latency: it delays each byte in both directions.

    delay.py TARGET_PORT MILLISECONDS

Prints the port it listens on. Half of the time is added in each direction, without a limit on
the data in flight, as on a long link. A new connection takes one additional round trip for its
handshake.
"""

import asyncio
import sys

TARGET, ROUND_TRIP = int(sys.argv[1]), float(sys.argv[2]) / 1000


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forwards the data it reads, half a round trip later."""
    loop, line = asyncio.get_running_loop(), asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    try:
        while True:
            data = await reader.read(65536)
            line.put_nowait((loop.time() + ROUND_TRIP / 2, data))
            if not data:
                break
        await delivery
    except ConnectionError:
        delivery.cancel()
        writer.close()


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(ROUND_TRIP)
    back, forth = await asyncio.open_connection("127.0.0.1", TARGET)
    await asyncio.gather(relay(reader, forth), relay(back, writer))


async def main() -> None:
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
