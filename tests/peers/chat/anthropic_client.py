"""The PyPI client anthropic, like in an application, with the sidecar as its base URL.

anthropic_client.py ORIGIN TOKEN: the token may also decide approvals. The sidecar uses the model of
tests/integration/chat/clients.rs, which follows instructions and has OpenAI's API. Exits with an
error if a response is wrong.
"""

import asyncio
import sys

import anthropic
from common import CLOCK, SUM, approve, rejection, said

PIZZA = {
    "name": "order_pizza",
    "description": "Orders a pizza",
    "input_schema": {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "required": ["size"],
    },
}


def text(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def kind_of(error: anthropic.APIStatusError) -> str:
    return error.body["error"]["type"]


def models(client: anthropic.Anthropic) -> None:
    listed = [model.id for model in client.models.list()]
    assert listed == ["demo", "small/er"], listed
    assert client.models.retrieve("demo").display_name == "demo"


def answers(client: anthropic.Anthropic) -> None:
    request = {"model": "demo", "max_tokens": 100}
    message = client.messages.create(messages=said(SUM), system="Be short.", **request)
    assert text(message) == "The tools say: 42", message
    assert message.stop_reason == "end_turn", message
    assert (message.usage.input_tokens, message.usage.output_tokens) == (20, 10), message
    choice = {"type": "none"}
    without = client.messages.create(messages=said(SUM), tool_choice=choice, **request)
    assert text(without) == f"You said: {SUM}", without
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    seen = said([picture, {"type": "text", "text": "What is it?"}])
    assert text(client.messages.create(messages=seen, **request)).endswith("What is it?")


def streams(client: anthropic.Anthropic) -> None:
    request = {"model": "demo", "max_tokens": 100, "messages": said(SUM)}
    with client.messages.stream(**request) as stream:
        assert "".join(stream.text_stream) == "The tools say: 42"
        final = stream.get_final_message()
    assert final.stop_reason == "end_turn" and final.usage.output_tokens == 10, final
    kinds = []
    for event in client.messages.create(stream=True, **request):
        if not kinds or kinds[-1] != event.type:
            kinds.append(event.type)
    assert [kind for kind in kinds if kind != "ping"] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ], kinds


def own_tools(client: anthropic.Anthropic) -> None:
    request = {"model": "demo", "max_tokens": 100, "tools": [PIZZA]}
    messages = said('order_pizza {"size": 3}')
    first = client.messages.create(messages=messages, **request)
    assert first.stop_reason == "tool_use", first
    (call,) = first.content
    assert (call.type, call.name, call.input) == ("tool_use", "order_pizza", {"size": 3}), call
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "It is in the oven."}
    rest = [{"role": "assistant", "content": first.content}, *said([result])]
    second = client.messages.create(messages=[*messages, *rest], **request)
    assert text(second) == "The tools say: It is in the oven.", second
    both = said('order_pizza {"size": 1}\norder_pizza {"size": 2}')
    with client.messages.stream(messages=both, **request) as stream:
        final = stream.get_final_message()
    assert [call.input["size"] for call in final.content] == [1, 2], final
    assert final.stop_reason == "tool_use", final
    for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "order_pizza"}):
        chosen = client.messages.create(messages=messages, tool_choice=choice, **request)
        assert chosen.stop_reason == "tool_use", chosen
    refused = client.messages.create(messages=messages, tool_choice={"type": "none"}, **request)
    assert refused.stop_reason == "end_turn", refused


def errors(client: anthropic.Anthropic, origin: str) -> None:
    create = client.messages.create
    request = {"model": "demo", "max_tokens": 100}
    stranger = anthropic.Anthropic(base_url=origin, api_key="wrong-wrong-wrong-wrong")
    error = rejection(
        anthropic.AuthenticationError,
        lambda: stranger.messages.create(messages=said("Hi"), **request),
    )
    assert kind_of(error) == "authentication_error", error
    error = rejection(
        anthropic.NotFoundError,
        lambda: create(model="gone", max_tokens=100, messages=said("Hi")),
    )
    assert kind_of(error) == "not_found_error" and "'gone'" in error.message, error
    error = rejection(anthropic.BadRequestError, lambda: create(messages=[], **request))
    assert kind_of(error) == "invalid_request_error", error
    error = rejection(
        anthropic.NotFoundError,
        lambda: client.messages.count_tokens(model="demo", messages=said("Hi")),
    )
    assert "/v1/messages/count_tokens" in error.message, error
    once = client.with_options(max_retries=0).messages.create
    error = rejection(
        anthropic.RateLimitError, lambda: once(messages=said("refuse anthropic"), **request)
    )
    assert kind_of(error) == "rate_limit_error", error
    assert error.response.headers["retry-after"] == "1", error
    # The model has rejected the first request; the client's own retry succeeds.
    again = create(messages=said("refuse anthropic again"), **request)
    assert text(again) == "You said: refuse anthropic again", again
    slow = client.with_options(timeout=0.5, max_retries=0).messages.create
    rejection(anthropic.APITimeoutError, lambda: slow(messages=said("wait"), **request))


def approvals(client: anthropic.Anthropic, origin: str, token: str) -> None:
    request = {"model": "demo", "max_tokens": 100, "messages": said(CLOCK)}
    error = rejection(
        anthropic.PermissionDeniedError, lambda: client.messages.create(**request)
    )
    assert kind_of(error) == "permission_error", error
    chat = error.response.headers["x-pillion-chat"]
    approve(origin, token, error.message)
    message = client.messages.create(**request, extra_headers={"x-pillion-chat": chat})
    assert text(message).startswith("The tools say: "), message


async def concurrently(origin: str, token: str) -> None:
    # Older clients and gateways send the key in this header.
    headers = {"x-api-key": token, "Authorization": anthropic.Omit()}
    request = {"model": "demo", "max_tokens": 100, "messages": said(SUM)}
    async with anthropic.AsyncAnthropic(
        base_url=origin, api_key=token, default_headers=headers
    ) as client:
        create = client.messages.create
        for message in await asyncio.gather(*(create(**request) for _ in range(3))):
            assert text(message) == "The tools say: 42", message


def main(origin: str, token: str) -> None:
    client = anthropic.Anthropic(base_url=origin, api_key=token)
    models(client)
    answers(client)
    streams(client)
    own_tools(client)
    errors(client, origin)
    approvals(client, origin, token)
    asyncio.run(concurrently(origin, token))
    print(f"anthropic {anthropic.__version__}: all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
