"""pydantic-ai over the three interfaces: an agent with a tool, a stream, a structured answer."""

import asyncio

from conversation import KEY, MODEL, URL, run
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Person(BaseModel):
    name: str
    age: int


def models():
    openai = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
    yield OpenAIChatModel(MODEL, provider=openai)
    yield OpenAIResponsesModel(MODEL, provider=openai)
    yield AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key=KEY))


def whole_with_a_tool():
    for model in models():
        agent = Agent(model)
        called = []

        @agent.tool_plain
        def weather(city: str) -> str:
            called.append(city)
            return "Sunny"

        assert agent.run_sync("What is the weather in Paris?").output and called


def streamed():
    async def ask(model):
        async with Agent(model).run_stream("Say hello.") as result:
            return [text async for text in result.stream_text(delta=True)]

    for model in models():
        assert "".join(asyncio.run(ask(model)))


def structured():
    for model in models():
        assert isinstance(Agent(model, output_type=Person).run_sync("Who?").output, Person)


run([whole_with_a_tool, streamed, structured])
