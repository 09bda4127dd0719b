"""What the clients of this directory share."""

import json
import urllib.request

SUM = 'calculator {"expression": "6 * 7"}'
CLOCK = 'get_time {"timezone": "UTC"}'


def said(content: object) -> list:
    return [{"role": "user", "content": content}]


def rejection(kind: type, call) -> Exception:
    """Returns the error of that kind that the call raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def approve(origin: str, token: str, message: str) -> None:
    """Approves the pending call that the message names."""

    def send(method: str, path: str) -> dict:
        authorization = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(origin + path, method=method, headers=authorization)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    for approval in send("GET", "/api/v1/approvals?status=pending")["approvals"]:
        if approval["id"] in message:
            send("POST", f"/api/v1/approvals/{approval['id']}/approve")
