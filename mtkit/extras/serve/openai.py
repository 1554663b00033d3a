"""The interface of OpenAI: /v1/chat/completions and /v1/models.

The last message of the user is the text. Other messages are not used: they cannot tell the model
how to translate.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from mtkit.extras.serve.directions import AUTO, MAX_ECHO, ServedDirection
from mtkit.extras.serve.interface import Endpoint, Fields, Interface
from mtkit.extras.serve.service import Service

STARTED = int(time.time())


class ContentPart(Fields):
    """A part of a message; parts that are no text are refused."""

    type: Literal["text"]
    text: str


class ChatMessage(Fields):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]


class ChatFields(Fields):
    """The fields of /v1/chat/completions; some have only the value that changes nothing."""

    model: str = Field(description="a pair of languages, such as en-de, or auto")
    messages: list[ChatMessage]
    stream: bool = False
    temperature: float = Field(0, ge=0, le=2, description="0: search for the best translation")
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)
    max_tokens: int = Field(2**31, ge=1, description="the answer ends before the line above it")
    max_completion_tokens: int = Field(2**31, ge=1)
    n: Literal[1] = 1
    frequency_penalty: Literal[0] = 0
    presence_penalty: Literal[0] = 0
    user: str = Field("", description="accepted, and not used")

    @property
    def text(self) -> str:
        """The last message of the user."""
        for message in reversed(self.messages):
            if message.role == "user":
                if isinstance(message.content, str):
                    return message.content
                return "".join(part.text for part in message.content)
        raise HTTPException(400, "messages: none of them is from the user")

    @property
    def sampling(self) -> dict[str, Any]:
        """The settings of sampling; empty: search for the best translation."""
        if self.temperature == 0:
            return {}
        settings = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        return {"sample": True, **settings}


@dataclass
class _Answer:
    """An answer, as far as the tokens suffice that the client allows."""

    service: Service
    fields: ChatFields
    direction: ServedDirection
    token_count: int = 0
    reason: Literal["stop", "length"] = "stop"
    name: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")

    def record(self, kind: str, **content: Any) -> dict[str, Any]:
        """Return an object of the interface."""
        now = int(time.time())
        model = self.direction.path
        return {"id": self.name, "object": kind, "created": now, "model": model, **content}

    async def pieces(self) -> AsyncGenerator[str, None]:
        """Yield the lines, each with the line feed before it."""
        limit = min(self.fields.max_tokens, self.fields.max_completion_tokens)
        separator = ""
        async with self.service.translating(
            [self.fields.text], [self.direction], **self.fields.sampling
        ) as (lines,):
            for line in lines:
                translation = await line
                if self.token_count + len(translation.tokens) > limit:
                    self.reason = "length"
                    return
                self.token_count += len(translation.tokens)
                yield separator + translation.text
                separator = "\n"

    async def events(self, first: str, others: AsyncGenerator[str, None]) -> AsyncIterator[bytes]:
        """Yield the events of a stream: one for each piece, then why it ends."""
        try:
            yield self._event(
                choices=[_choice(None, delta={"role": "assistant", "content": first})]
            )
            async for piece in others:
                yield self._event(choices=[_choice(None, delta={"content": piece})])
            yield self._event(choices=[_choice(self.reason, delta={})])
            yield b"data: [DONE]\n\n"
        except HTTPException as refusal:  # too late for another status
            yield _data(_refuse(refusal))

    def _event(self, **content: Any) -> bytes:
        return _data(self.record("chat.completion.chunk", **content))


async def _complete(service: Service, fields: ChatFields) -> Any:
    direction = await _find_direction(service, fields.model, fields.text)
    answer = _Answer(service, fields, direction)
    pieces = answer.pieces()
    if fields.stream:
        first = await anext(pieces, "")  # here, because a refusal comes before the response
        return StreamingResponse(answer.events(first, pieces), media_type="text/event-stream")
    text = "".join([piece async for piece in pieces])
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [_choice(answer.reason, message=message)]
    return answer.record("chat.completion", choices=choices)


def _choice(reason: str | None, **content: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, **content, "logprobs": None, "finish_reason": reason}


def _data(content: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(content).encode()


async def _find_direction(service: Service, model: str, text: str) -> ServedDirection:
    """Return the direction with a name; for `auto`, the first one of the language of the text."""
    directions = {each.name.lower(): each for each in service.directions.by_pair.values()}
    if model == AUTO:
        (ranking,) = await service.detect([text])
        return next(each for each in directions.values() if each.source == ranking[0][0])
    if model.lower() not in directions:
        choices = ", ".join(directions)
        raise HTTPException(
            404, f"model: {model[:MAX_ECHO]!r} names no pair; choose from {choices}"
        )
    return directions[model.lower()]


async def _list_models(service: Service, fields: Fields) -> dict[str, Any]:
    names = [direction.name for direction in service.directions.by_pair.values()]
    models = [
        {"id": name, "object": "model", "created": STARTED, "owned_by": "mtkit"}
        for name in [*names, AUTO]
    ]
    return {"object": "list", "data": models}


def _refuse(refusal: HTTPException) -> dict[str, Any]:
    return {
        "error": {"message": refusal.detail, "type": "mtkit_error", "param": None, "code": None}
    }


OPENAI = Interface(
    prefix="/v1/",
    endpoints=[
        Endpoint("POST", "/v1/chat/completions", _complete, ChatFields, takes_forms=False),
        Endpoint("GET", "/v1/models", _list_models),
    ],
    refuse=_refuse,
)
