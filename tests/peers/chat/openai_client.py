"""The PyPI client openai, like in an application, with the sidecar as its base URL.

openai_client.py ORIGIN TOKEN: the token may also decide approvals. The sidecar uses the model of
tests/integration/chat/clients.rs, which follows instructions. Exits with an error if a response is
wrong.
"""

import asyncio
import json
import sys

import openai
from common import CLOCK, SUM, approve, rejection, said
from pydantic import BaseModel

PIZZA = {
    "type": "function",
    "function": {
        "name": "order_pizza",
        "description": "Orders a pizza",
        "parameters": {
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "required": ["size"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Departure(BaseModel):
    city: str
    hour: int


def models(client: openai.OpenAI) -> None:
    listed = [model.id for model in client.models.list()]
    assert listed == ["demo", "small/er"], listed
    for name in listed:
        assert client.models.retrieve(name).id == name
    error = rejection(openai.NotFoundError, lambda: client.models.retrieve("gone"))
    assert error.code == "model_not_found", error


def answers(client: openai.OpenAI) -> None:
    create = client.chat.completions.create
    answer = create(model="demo", messages=said(SUM))
    assert answer.choices[0].message.content == "The tools say: 42", answer
    assert answer.choices[0].finish_reason == "stop", answer
    assert answer.choices[0].message.tool_calls is None, answer
    assert answer.usage.total_tokens == 30, answer
    without = create(model="demo", messages=said(SUM), tool_choice="none")
    assert without.choices[0].message.content == f"You said: {SUM}", without


def streams(client: openai.OpenAI) -> None:
    create = client.chat.completions.create
    request = {"model": "demo", "messages": said(SUM), "stream": True}
    with create(**request, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(words) == "The tools say: 42", words
    assert chunks[-1].usage.total_tokens == 30 and not chunks[-1].choices, chunks[-1]
    assert chunks[-2].choices[0].finish_reason == "stop", chunks[-2]
    assert all(chunk.usage is None for chunk in create(**request))
    raw = client.chat.completions.with_raw_response.create(**request)
    assert raw.headers["x-pillion-chat"], raw.headers
    with client.chat.completions.stream(model="demo", messages=said(SUM)) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "The tools say: 42", final


def own_tools(client: openai.OpenAI) -> None:
    completions = client.chat.completions
    request = {"model": "demo", "tools": [PIZZA]}
    messages = said('order_pizza {"size": 3}')
    first = completions.create(messages=messages, **request).choices[0]
    assert first.finish_reason == "tool_calls", first
    call = first.message.tool_calls[0]
    assert call.function.name == "order_pizza", call
    assert json.loads(call.function.arguments) == {"size": 3}, call
    result = {"role": "tool", "tool_call_id": call.id, "content": "It is in the oven."}
    second = completions.create(messages=[*messages, first.message, result], **request)
    assert second.choices[0].message.content == "The tools say: It is in the oven.", second
    both = said('order_pizza {"size": 1}\norder_pizza {"size": 2}')
    with completions.stream(messages=both, **request) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion().choices[0]
    assert [event.parsed_arguments["size"] for event in done] == [1, 2], done
    assert len({call.id for call in final.message.tool_calls}) == 2, final
    assert final.finish_reason == "tool_calls", final
    for choice in (
        "auto",
        "required",
        {"type": "function", "function": {"name": "order_pizza"}},
    ):
        chosen = completions.create(messages=messages, tool_choice=choice, **request)
        assert chosen.choices[0].message.tool_calls, chosen
    refused = completions.create(messages=messages, tool_choice="none", **request)
    assert refused.choices[0].message.tool_calls is None, refused


def structured(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="demo", messages=said("When does it leave?"), response_format=Departure
    )
    assert answer.choices[0].message.parsed == Departure(city="Tokyo", hour=9), answer


def errors(client: openai.OpenAI, base_url: str) -> None:
    create = client.chat.completions.create
    stranger = openai.OpenAI(base_url=base_url, api_key="wrong-wrong-wrong-wrong")
    error = rejection(openai.AuthenticationError, stranger.models.list)
    assert error.code == "invalid_api_key", error.body
    error = rejection(openai.NotFoundError, lambda: create(model="gone", messages=said("Hi")))
    assert error.code == "model_not_found" and "'gone'" in error.message, error
    error = rejection(openai.BadRequestError, lambda: create(model="demo", messages=[]))
    assert error.type == "invalid_request_error", error
    rejection(openai.NotFoundError, lambda: client.embeddings.create(model="demo", input="Hi"))
    busy = client.with_options(max_retries=0).chat.completions.create
    error = rejection(
        openai.RateLimitError, lambda: busy(model="demo", messages=said("refuse python"))
    )
    assert error.response.headers["retry-after"] == "1", error
    # The model has rejected the first request; the client's own retry succeeds.
    again = create(model="demo", messages=said("refuse python again"))
    assert again.choices[0].message.content == "You said: refuse python again", again
    slow = client.with_options(timeout=0.5, max_retries=0).chat.completions.create
    rejection(openai.APITimeoutError, lambda: slow(model="demo", messages=said("wait")))


def approvals(client: openai.OpenAI, origin: str, token: str) -> None:
    create = client.chat.completions.create
    request = {"model": "demo", "messages": said(CLOCK)}
    error = rejection(openai.PermissionDeniedError, lambda: create(**request))
    assert error.code == "approval_required", error
    chat = error.response.headers["x-pillion-chat"]
    approve(origin, token, error.message)
    answer = create(**request, extra_headers={"x-pillion-chat": chat})
    assert answer.choices[0].message.content.startswith("The tools say: "), answer


async def concurrently(base_url: str, token: str) -> None:
    async with openai.AsyncOpenAI(base_url=base_url, api_key=token) as client:
        create = client.chat.completions.create
        request = {"model": "demo", "messages": said(SUM)}
        for answer in await asyncio.gather(*(create(**request) for _ in range(3))):
            assert answer.choices[0].message.content == "The tools say: 42", answer
        words = ""
        async for chunk in await create(**request, stream=True):
            words += chunk.choices[0].delta.content or ""
        assert words == "The tools say: 42", words


def main(origin: str, token: str) -> None:
    base_url = f"{origin}/v1"
    client = openai.OpenAI(base_url=base_url, api_key=token)
    models(client)
    answers(client)
    streams(client)
    own_tools(client)
    structured(client)
    errors(client, base_url)
    approvals(client, origin, token)
    asyncio.run(concurrently(base_url, token))
    print(f"openai {openai.VERSION}: all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
