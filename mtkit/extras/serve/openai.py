"""The interface of OpenAI: /v1/chat/completions and /v1/models.

The last message of the user is the text, with an instruction around it or not. Other messages are
not used: they cannot tell the model how to translate.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from mtkit.decoding.text.line import Translation
from mtkit.extras.serve.directions import AUTO, MAX_ECHO, ServedDirection
from mtkit.extras.serve.interface import (
    JSON_TYPE,
    Endpoint,
    Fields,
    Interface,
    Refused,
    join_alternatives,
    join_lines,
)
from mtkit.extras.serve.prompts import ChatText, read_message
from mtkit.extras.serve.service import Service

STARTED = int(time.time())
MAX_CHOICES = 11
"""Most answers to a request: the best translation and ten others."""


class ContentPart(Fields):
    """A part of a message; parts that are no text are refused."""

    type: Literal["text"]
    text: str


class ChatMessage(Fields):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]


class ResponseFormat(Fields):
    """The form of an answer, which is always plain text."""

    type: Literal["text"] = "text"


class StreamOptions(Fields):
    """What a stream contains besides the text."""

    include_usage: bool = False


class ChatFields(Fields):
    """The fields of /v1/chat/completions."""

    model: str = Field(
        AUTO, description="a pair such as en-de, or auto; any name if one direction is served"
    )
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float = Field(0, ge=0, le=2, description="used with `serve --sample` only")
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)
    max_tokens: int = Field(2**31, ge=1, description="the answer ends before the line above it")
    max_completion_tokens: int = Field(2**31, ge=1)
    n: int = Field(1, ge=1, le=MAX_CHOICES, description="at most this many different answers")
    response_format: ResponseFormat = ResponseFormat()
    frequency_penalty: Refused = None
    presence_penalty: Refused = None
    logit_bias: Refused = None
    tools: Refused = None
    functions: Refused = None
    glossary: Refused = None

    @property
    def content(self) -> str:
        """The last message of the user."""
        for message in reversed(self.messages):
            if message.role == "user":
                if isinstance(message.content, str):
                    return message.content
                return "".join(part.text for part in message.content)
        raise HTTPException(400, "messages: none of them is from the user")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of sampling."""
        names = {"temperature", "top_p", "seed"}
        return {"sample": True, **self.model_dump(include=names)}


@dataclass
class _Answer:
    """An answer, as far as the tokens suffice that the client allows."""

    service: Service
    fields: ChatFields
    message: ChatText
    direction: ServedDirection
    texts: list[list[Translation]] = field(default_factory=list)
    """The lines of each text."""
    reason: Literal["stop", "length"] = "stop"
    name: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")

    def record(self, kind: str, **content: Any) -> dict[str, Any]:
        """Return an object of the interface."""
        now = int(time.time())
        model = self.direction.path
        return {"id": self.name, "object": kind, "created": now, "model": model, **content}

    async def pieces(self) -> AsyncGenerator[str, None]:
        """Yield the texts, each with what stands before it, and then what stands at the end."""
        fields = self.fields
        limit = min(fields.max_tokens, fields.max_completion_tokens)
        settings: dict[str, Any] = {}
        if self.service.options.sample and fields.temperature > 0:
            settings = fields.settings
        message = self.message
        async with self.service.translating(
            message.texts,
            [self.direction] * len(message.texts),
            alternatives=fields.n - 1,
            **settings,
        ) as group:
            for literal, tasks in zip(message.literals, group, strict=False):
                lines = [await task for task in tasks]
                if self._count_tokens() + sum(len(line.tokens) for line in lines) > limit:
                    self.reason = "length"
                    return
                self.texts.append(lines)
                yield literal + message.encode(join_lines(lines))
        if message.literals[-1]:
            yield message.literals[-1]

    def join_others(self) -> list[str]:
        """Return other answers: the second translations of all texts, then the third ones."""
        best = [join_lines(lines) for lines in self.texts]
        answers: list[str] = []
        for others in zip_longest(*map(join_alternatives, self.texts)):
            chosen = [other or text for other, text in zip(others, best, strict=True)]
            answers.append(self.message.fill(chosen))
        return answers

    def count_usage(self) -> dict[str, int]:
        """Return the words of the text, and the subwords of the answer."""
        prompt = len(self.fields.content.split())
        completion = self._count_tokens()
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _count_tokens(self) -> int:
        return sum(len(line.tokens) for line in chain.from_iterable(self.texts))

    async def events(self, first: str, others: AsyncGenerator[str, None]) -> AsyncIterator[bytes]:
        """Yield the events of a stream: one for each piece, then why it ends."""
        try:
            yield self._event(
                choices=[_choice(None, delta={"role": "assistant", "content": first})]
            )
            async for piece in others:
                yield self._event(choices=[_choice(None, delta={"content": piece})])
            yield self._event(choices=[_choice(self.reason, delta={})])
            if self.fields.stream_options.include_usage:
                yield self._event(choices=[], usage=self.count_usage())
            yield b"data: [DONE]\n\n"
        except HTTPException as refusal:  # too late for another status
            yield _data(_refuse(refusal))

    def _event(self, **content: Any) -> bytes:
        return _data(self.record("chat.completion.chunk", **content))


async def _complete(service: Service, fields: ChatFields) -> Any:
    service.measure([fields.content])
    message = read_message(fields.content, service.options.prompts)
    direction = await _find_direction(service, fields.model, message)
    answer = _Answer(service, fields, message, direction)
    pieces = answer.pieces()
    if fields.stream and fields.n > 1:
        raise HTTPException(400, "n: a stream has one answer")
    if fields.stream:
        first = await anext(pieces, "")  # here, because a refusal comes before the response
        return StreamingResponse(answer.events(first, pieces), media_type="text/event-stream")
    text = "".join([piece async for piece in pieces])
    texts = [text, *answer.join_others()]
    choices: list[dict[str, Any]] = []
    for index, content in enumerate(texts):
        reply = {"role": "assistant", "content": content, "refusal": None}
        choices.append(_choice(answer.reason, index, message=reply))
    return answer.record("chat.completion", choices=choices, usage=answer.count_usage())


def _choice(reason: str | None, index: int = 0, **content: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}


def _data(content: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(content).encode()


async def _find_direction(service: Service, model: str, message: ChatText) -> ServedDirection:
    """Return the direction that the model names, else the one that the instruction names.

    `auto` is the first direction of the language of the text. If the server has only one direction,
    every name means it.
    """
    directions = list(service.directions.by_pair.values())
    named = service.directions.find_by_name(model)
    if named is not None:
        return named
    text = "\n".join(message.texts)
    if message.target:
        (direction,), _ = await service.choose_directions([text], message.source, message.target)
        return direction
    if len(directions) == 1:
        return directions[0]
    if model.lower() == AUTO:
        (ranking,) = await service.detect([text], only_served=True)
        return next(each for each in directions if each.source == ranking[0][0])
    choices = service.directions.choices
    raise HTTPException(404, f"model: {model[:MAX_ECHO]!r} names no pair; choose from {choices}")


async def _list_models(service: Service, fields: Fields) -> dict[str, Any]:
    names = [direction.name for direction in service.directions.by_pair.values()]
    return {"object": "list", "data": [_describe_model(name) for name in [*names, AUTO]]}


async def _find_model(service: Service, fields: Fields, model: str) -> dict[str, Any]:
    if model.lower() != AUTO:
        await _find_direction(service, model, ChatText([], [""]))
    return _describe_model(model)


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": STARTED, "owned_by": "mtkit"}


def _refuse(refusal: HTTPException) -> dict[str, Any]:
    code = "invalid_api_key" if refusal.status_code == 401 else None
    return {
        "error": {"message": refusal.detail, "type": "mtkit_error", "param": None, "code": code}
    }


OPENAI = Interface(
    prefix="/v1/",
    endpoints=[
        Endpoint("POST", "/v1/chat/completions", _complete, ChatFields, [JSON_TYPE]),
        Endpoint("GET", "/v1/models", _list_models),
        Endpoint("GET", "/v1/models/{model}", _find_model),
    ],
    refuse=_refuse,
)
