"""The interface of OpenAI: /v1/chat/completions and /v1/models.

The last message of the user is the text, with an instruction around it or not. Other messages are
not used: they cannot tell the model how to translate.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from mtkit.extras.serve.directions import AUTO, MAX_ECHO, ServedDirection
from mtkit.extras.serve.interface import JSON_TYPE, Endpoint, Fields, Interface, Refused, join_lines
from mtkit.extras.serve.prompts import ChatText, read_message
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
    """The fields of /v1/chat/completions."""

    model: str = AUTO
    """A pair such as en-de, or auto; any name if one direction is served."""
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: dict[str, Any] = Field({})
    temperature: float = 0
    top_p: float | None = None
    seed: int | None = None
    n: Literal[1] = 1
    response_format: dict[Literal["type"], Literal["text"]] = Field({})
    glossary_id: str = ""
    frequency_penalty: Refused = None
    presence_penalty: Refused = None
    tools: Refused = None

    @property
    def content(self) -> str:
        """The last message of the user."""
        contents = [message.content for message in self.messages if message.role == "user"]
        if not contents:
            raise HTTPException(400, "messages: none of them is from the user")
        last = contents[-1]
        return last if isinstance(last, str) else "".join(part.text for part in last)


async def _complete(service: Service, fields: ChatFields) -> Any:
    content = fields.content
    service.measure([content])
    message = read_message(content, service.options.prompts)
    direction = await _find_direction(service, fields.model, message)
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{uuid4().hex}",
        "created": int(time.time()),
        "model": direction.path,
        "usage": {"prompt_tokens": len(content.split()), "completion_tokens": 0},
    }
    pieces = _translate(service, fields, message, direction, answer["usage"])
    if fields.stream:
        first = await anext(pieces, "")  # here, because a refusal comes before the response
        events = _stream(answer, first, pieces, fields)
        return StreamingResponse(events, media_type="text/event-stream")
    text = "".join([piece async for piece in pieces])
    choice = _choice("stop", message={"role": "assistant", "content": text, "refusal": None})
    return answer | {"object": "chat.completion", "choices": [choice]}


async def _translate(
    service: Service,
    fields: ChatFields,
    message: ChatText,
    direction: ServedDirection,
    usage: dict[str, int],
) -> AsyncGenerator[str, None]:
    """Yield the texts, each with what stands before it, and then what stands at the end.

    `usage` gets the number of subwords.
    """
    directions = [direction] * len(message.texts)
    settings = service.choose_glossary(fields.glossary_id, directions)
    if service.options.sample and fields.temperature > 0:
        sampling = fields.model_dump(include={"temperature", "top_p", "seed"})
        settings |= {"sample": True, **sampling}
    async with service.translating(message.texts, directions, **settings) as group:
        for literal, tasks in zip(message.literals, group, strict=False):
            lines = [await task for task in tasks]
            usage["completion_tokens"] += sum(len(line.tokens) for line in lines)
            yield literal + message.encode(join_lines(lines))
    usage["total_tokens"] = sum(usage.values())
    if message.literals[-1]:
        yield message.literals[-1]


async def _stream(
    answer: dict[str, Any], first: str, others: AsyncGenerator[str, None], fields: ChatFields
) -> AsyncIterator[bytes]:
    """Yield the events of a stream: one for each piece, then why it ends."""
    usage = answer.pop("usage")
    answer["object"] = "chat.completion.chunk"
    try:
        start = _choice(None, delta={"role": "assistant", "content": first})
        yield _event(answer, choices=[start])
        async for piece in others:
            yield _event(answer, choices=[_choice(None, delta={"content": piece})])
        yield _event(answer, choices=[_choice("stop", delta={})])
        if fields.stream_options.get("include_usage"):
            yield _event(answer, choices=[], usage=usage)
        yield b"data: [DONE]\n\n"
    except HTTPException as refusal:  # too late for another status
        yield _event(_refuse(refusal))


def _choice(reason: str | None, **content: Any) -> dict[str, Any]:
    return {"index": 0, **content, "finish_reason": reason}


def _event(content: dict[str, Any], **others: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(content | others).encode()


async def _find_direction(service: Service, model: str, message: ChatText) -> ServedDirection:
    """Return the direction that the model names, else the one that the instruction names.

    `auto` is the first direction of the language of the text. If the server has only one direction,
    every name means it.
    """
    directions = list(service.directions.by_pair.values())
    for direction in directions:
        if direction.name == model:
            return direction
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
    name = repr(model[:MAX_ECHO])
    raise HTTPException(
        404, f"model: {name} is not a language pair of this server; choose from {choices}"
    )


async def _list_models(service: Service, fields: Fields) -> dict[str, Any]:
    names = [direction.name for direction in service.directions.by_pair.values()]
    common = {"object": "model", "created": STARTED, "owned_by": "mtkit"}
    return {"object": "list", "data": [{"id": name, **common} for name in [*names, AUTO]]}


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
    ],
    refuse=_refuse,
)
