"""The interface of OpenAI: /v1/chat/completions and /v1/models.

The last message of the user is the text. Other messages are not used: they cannot tell the model
how to translate.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import Field
from starlette.responses import StreamingResponse

from mtkit.config.base import Settings
from mtkit.serve.directions import ServedDirection
from mtkit.serve.interface import MAX_ECHO, Endpoint, Interface, join_lines, json_line
from mtkit.serve.service import Refusal, ServedLine, Service, Wish

AUTO = "auto"
"""The model that detects the language of the text."""
EVENTS = "text/event-stream"
MAX_MESSAGES = 1_000
STARTED = int(time.time())


class ContentPart(Settings):
    """A part of a message; parts that are no text are refused."""

    type: Literal["text"]
    text: str


class ChatMessage(Settings):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[ContentPart], Field(max_length=MAX_MESSAGES)]
    name: str = ""


class StreamOptions(Settings):
    """What a stream ends with."""

    include_usage: bool = False


class ResponseFormat(Settings):
    """The form of the answer: text."""

    type: Literal["text"]


class ChatFields(Settings):
    """The fields of /v1/chat/completions; some have only the value that changes nothing."""

    model: str = Field(description="a pair of languages, such as en-de, or auto")
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float = Field(0, ge=0, le=2, description="0: search for the best translation")
    top_p: float = Field(1, gt=0, le=1)
    seed: int = Field(1, ge=0, le=2**63 - 1)
    max_tokens: int = Field(2**31, ge=1, description="the answer ends before the line above it")
    max_completion_tokens: int = Field(2**31, ge=1)
    n: Literal[1] = 1
    frequency_penalty: Literal[0] = 0
    presence_penalty: Literal[0] = 0
    logprobs: Literal[False] = False
    response_format: ResponseFormat | None = None
    user: str = Field("", description="accepted, and not used")

    @property
    def text(self) -> str:
        """The last message of the user."""
        for message in reversed(self.messages):
            if message.role == "user":
                if isinstance(message.content, str):
                    return message.content
                return "".join(part.text for part in message.content)
        raise Refusal(400, "messages: none of them is from the user", "messages")

    @property
    def wish(self) -> Wish:
        """Whether to search or to sample."""
        if self.temperature == 0:
            return Wish()
        top_p = self.top_p if self.top_p < 1 else None
        settings = {"temperature": self.temperature, "top_p": top_p, "seed": self.seed}
        return Wish(sampling={"sample": True, **settings})


@dataclass
class _Answer:
    """The lines of an answer, as far as the tokens suffice that the client allows."""

    service: Service
    fields: ChatFields
    direction: ServedDirection
    token_count: int = 0
    reason: Literal["stop", "length"] = "stop"

    async def lines(self) -> AsyncGenerator[ServedLine, None]:
        """Yield the lines."""
        limit = min(self.fields.max_tokens, self.fields.max_completion_tokens)
        stream = self.service.stream(self.fields.text, self.direction, self.fields.wish)
        async with aclosing(stream):
            async for line in stream:
                if self.token_count + line.token_count > limit:
                    self.reason = "length"
                    return
                self.token_count += line.token_count
                yield line

    async def count_usage(self) -> dict[str, int]:
        """Return how many tokens were read and written."""
        read = await self.service.count_tokens(self.fields.text, self.direction)
        counts = {"prompt_tokens": read, "completion_tokens": self.token_count}
        return {**counts, "total_tokens": sum(counts.values())}


async def _complete(service: Service, fields: ChatFields) -> Any:
    direction = await _find_direction(service, fields.model, fields.text)
    answer = _Answer(service, fields, direction)
    identity = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time())}
    head = {**identity, "model": direction.path}
    lines = answer.lines()
    if fields.stream:
        first = await anext(lines, None)  # here, because a refusal comes before the response
        return StreamingResponse(_events(answer, first, lines, head), media_type=EVENTS)
    text = join_lines([line async for line in lines])
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [_choice(answer.reason, message=message)]
    usage = await answer.count_usage()
    return {**head, "object": "chat.completion", "choices": choices, "usage": usage}


def _choice(reason: str | None, **content: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, **content, "logprobs": None, "finish_reason": reason}


async def _find_direction(service: Service, model: str, text: str) -> ServedDirection:
    directions = list(service.directions.by_pair.values())
    if model == AUTO:
        (detected,) = await service.detect([text])
        source = next(iter(detected))
        directions = [each for each in directions if each.source == source]
        if len(directions) == 1:
            return directions[0]
    for direction in directions:
        if model.lower() == direction.name.lower():
            return direction
    names = ", ".join(direction.name for direction in directions)
    raise Refusal(404, f"model: {model[:MAX_ECHO]!r} names no pair; choose from {names}", "model")


async def _events(
    answer: _Answer,
    first: ServedLine | None,
    others: AsyncGenerator[ServedLine, None],
    head: dict[str, Any],
) -> AsyncIterator[bytes]:
    """Yield the events of a stream: one for each line, then why it ends."""

    def event(**content: Any) -> bytes:
        return b"data: %b\n\n" % json_line({**head, "object": "chat.completion.chunk", **content})

    try:
        if first is not None:
            delta = {"role": "assistant", "content": first.text}
            yield event(choices=[_choice(None, delta=delta)])
        async with aclosing(others):
            async for line in others:
                yield event(choices=[_choice(None, delta={"content": f"\n{line.text}"})])
        yield event(choices=[_choice(answer.reason, delta={})])
        if answer.fields.stream_options.include_usage:
            yield event(choices=[], usage=await answer.count_usage())
        yield b"data: [DONE]\n\n"
    except Refusal as refusal:  # too late for another status
        yield b"data: %b\n\n" % json_line(_refuse(refusal))


async def _list_models(service: Service, fields: Settings) -> dict[str, Any]:
    names = [direction.name for direction in service.directions.by_pair.values()]
    models = [
        {"id": name, "object": "model", "created": STARTED, "owned_by": "mtkit"}
        for name in [*names, AUTO]
    ]
    return {"object": "list", "data": models}


def _refuse(refusal: Refusal) -> dict[str, Any]:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
    kind = kinds.get(refusal.status, "invalid_request_error")
    error = {"message": refusal.message, "type": kind, "param": refusal.field, "code": None}
    return {"error": error}


OPENAI = Interface(
    "OpenAI",
    [
        Endpoint("POST", "/v1/chat/completions", _complete, ChatFields, takes_forms=False),
        Endpoint("GET", "/v1/models", _list_models),
    ],
    _refuse,
    wrong_key_status=401,
)
