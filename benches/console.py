"""Measures pages of the console against the REST API, which reads the same records of the same sidecar.

    benches/console.py PROGRAM [CALLS] [ROUNDS]

Starts PROGRAM (a release build of `pillion`) with an empty SQLite store, records CALLS calls (100,000), and loads each
page ROUNDS times (100), alternating with the REST requests. Prints the median time to the first byte and the size of
the body; then the memory of the sidecar without and with 100 open pages that receive live updates.
"""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = sys.argv[1]
CALLS, ROUNDS = (int(sys.argv[index]) if len(sys.argv) > index else default for index, default in ((2, 100_000), (3, 100)))
OPEN_PAGES = 100
FORWARDED = {"x-pillion-console-user": "bench", "x-pillion-console-csrf": "0123456789abcdef0123456789abcdef"}


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def load(connection: UnixConnection, path: str, headers: dict[str, str]) -> tuple[float, int]:
    """Returns the milliseconds until the head of the response arrives, and the bytes of its body."""
    start = time.perf_counter()
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    milliseconds = (time.perf_counter() - start) * 1e3
    body = response.read()
    assert response.status == 200, (path, response.status, body[:300])
    return milliseconds, len(body)


def record_calls(connection: UnixConnection) -> None:
    """Records calls of two tools; every tenth fails."""
    batch = [
        {"id": str(number), "name": "calculator", "arguments": {"expression": f"{number} / 0" if number % 10 == 0 else f"{number} * 2"}}
        for number in range(100)
    ]
    for number in range(CALLS // 100):
        headers = {"content-type": "application/json", "x-pillion-user": f"user{number % 20}"}
        connection.request("POST", "/api/v1/tools/batch-execute", json.dumps({"calls": batch}), headers)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body[:300]


def resident_kibibytes(pid: int) -> int:
    """Returns the memory of a process that is not shared with others, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        socket_path = work / "pillion.sock"
        config = work / "pillion.toml"
        config.write_text(
            f'[store]\nlocation = "{work}/pillion.db"\n[executor]\nrate_limit = 0\n[socket]\nmax_connections = 1000\n'
        )
        sidecar = subprocess.Popen([PROGRAM, "serve", "--config", config, "--socket", socket_path], stderr=subprocess.DEVNULL)
        try:
            while not socket_path.exists():
                time.sleep(0.05)
                assert sidecar.poll() is None, "the sidecar has ended"
            connection = UnixConnection(socket_path)
            record_calls(connection)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
            filters = f"tool=calculator&status=error&user=user7&from={since}"
            pages = [
                ("Home", "/console/home", "/api/v1/tool-calls/statistics"),
                ("Calls", "/console/calls", "/api/v1/tool-calls?limit=50"),
                ("Calls with four filters", f"/console/calls?{filters}", f"/api/v1/tool-calls?limit=50&{filters}"),
                ("Usage", "/console/usage?period=hour", f"/api/v1/tool-calls/statistics?from={since}"),
                ("Tools", "/console/tools", "/api/v1/tools"),
                ("Servers", "/console/servers", "/api/v1/servers"),
            ]
            print(f"{CALLS} recorded calls\n\n| page | first byte | REST request | ratio | size |\n| --- | --- | --- | --- | --- |")
            for name, page, rest in pages:
                load(connection, page, FORWARDED)
                measured = [(load(connection, page, FORWARDED), load(connection, rest, {})) for _ in range(ROUNDS)]
                page_time = statistics.median(page_load[0] for page_load, _ in measured)
                rest_time = statistics.median(rest_load[0] for _, rest_load in measured)
                size = measured[0][0][1]
                print(f"| {name} | {page_time:.1f} ms | {rest_time:.1f} ms | {page_time / rest_time:.2f} | {size / 1024:.1f} KiB |")
            before = resident_kibibytes(sidecar.pid)
            streams = []
            for _ in range(OPEN_PAGES):
                stream = UnixConnection(socket_path)
                stream.request("GET", "/console/live?types=call,approval,server,tools", headers=FORWARDED)
                assert stream.getresponse().status == 200
                streams.append(stream)
            time.sleep(1)
            growth = (resident_kibibytes(sidecar.pid) - before) / OPEN_PAGES
            print(f"\nA page that receives live updates: {growth:.0f} KiB")
        finally:
            sidecar.terminate()
            sidecar.wait()


main()
