"""The OpenAI Agents SDK: an agent with a tool over Responses and over Chat Completions, whole and streamed."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from conversation import KEY, MODEL, URL, run
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sunny in {city}"


def agents():
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
        yield Agent(name="a", instructions="Be brief.", tools=[weather], model=kind(MODEL, client))


def whole():
    for agent in agents():
        assert Runner.run_sync(agent, "What is the weather in Paris?").final_output


def streamed():
    async def ask(agent):
        result = Runner.run_streamed(agent, "What is the weather in Paris?")
        events = [event.type async for event in result.stream_events()]
        return events, result.final_output

    for agent in agents():
        events, output = asyncio.run(ask(agent))
        assert "raw_response_event" in events and output


run([whole, streamed])
