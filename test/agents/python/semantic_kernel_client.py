"""Semantic Kernel: its chat agent and its Responses agent, each with a function that the model calls."""

import asyncio

from conversation import KEY, MODEL, URL, run
from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, OpenAIResponsesAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


called = []


class Weather:
    @kernel_function(description="The weather of a city.")
    def weather(self, city: str) -> str:
        called.append(city)
        return f"Sunny in {city}"


def client():
    return AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)


def chat_agent():
    async def ask():
        service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client())
        agent = ChatCompletionAgent(service=service, name="a", instructions="Be brief.", plugins=[Weather()])
        return await agent.get_response(messages="What is the weather in Paris?")

    assert str(asyncio.run(ask()))


def responses_agent():
    async def ask():
        agent = OpenAIResponsesAgent(
            ai_model_id=MODEL, client=client(), name="a", instructions="Be brief.", plugins=[Weather()]
        )
        # It sends the question again behind each result, which the built-in models take for a new one: it ends after its own number of calls.
        async for item in agent.invoke(messages="What is the weather in Paris?"):
            assert item

    asyncio.run(ask())
    assert called


run([chat_agent, responses_agent])
