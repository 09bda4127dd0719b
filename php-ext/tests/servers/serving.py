"""The common part of the fake servers: HTTP/1.1 with persistent connections, and an end when standard
input is closed. A server prints its port when it is ready."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes; without this, each response takes 40 ms.
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def answer(self, status, kind, body, headers={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # Some tests disconnect before the response.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(handler):
    server = Server(("127.0.0.1", 0), handler)
    print(server.server_address[1], flush=True)
    # The server ends with the process that started it, which closes its standard input.
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()
