"""OpenAI's own client: on a transport of ours, and asked for a stream."""

from collections.abc import Mapping
from typing import Any

import httpx
import openai
from openai.types.chat import ChatCompletionChunk


def official(
    origin: str,
    transport: httpx.BaseTransport,
    *,
    key: str = "k",
    retries: int = openai.DEFAULT_MAX_RETRIES,
) -> openai.OpenAI:
    # openai 3 takes httpx' clients beside those of httpx2, which alone its types name.
    http: Any = httpx.Client(transport=transport)
    return openai.OpenAI(
        base_url=f"{origin}/v1", api_key=key, max_retries=retries, http_client=http
    )


def official_async(origin: str, transport: httpx.AsyncBaseTransport) -> openai.AsyncOpenAI:
    http: Any = httpx.AsyncClient(transport=transport)
    return openai.AsyncOpenAI(base_url=f"{origin}/v1", api_key="k", http_client=http)


def streamed(
    client: openai.OpenAI, body: Mapping[str, object]
) -> openai.Stream[ChatCompletionChunk]:
    """What a body as JSON has it is asked by name, one field as the other."""
    fields: dict[str, Any] = {**body, "stream": True}
    chunks: openai.Stream[ChatCompletionChunk] = client.chat.completions.create(**fields)
    return chunks


async def streamed_async(
    client: openai.AsyncOpenAI, body: Mapping[str, object]
) -> openai.AsyncStream[ChatCompletionChunk]:
    fields: dict[str, Any] = {**body, "stream": True}
    chunks: openai.AsyncStream[ChatCompletionChunk] = await client.chat.completions.create(**fields)
    return chunks
