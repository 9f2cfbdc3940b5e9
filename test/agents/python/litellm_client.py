"""LiteLLM as a client: OpenAI's and Anthropic's interfaces, whole, streamed, tools."""

import litellm
from conversation import KEY, MODEL, URL, WEATHER, run

litellm.num_retries = 0
HELLO = [{"role": "user", "content": "Say hello."}]
WAYS = [
    {"model": f"openai/{MODEL}", "api_base": f"{URL}/v1", "api_key": KEY},
    {"model": f"anthropic/{MODEL}", "api_base": URL, "api_key": KEY, "max_tokens": 500},
]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


def whole():
    for way in WAYS:
        answer = litellm.completion(messages=HELLO, **way)
        assert answer.choices[0].message.content and answer.usage.total_tokens > 0


def streamed():
    for way in WAYS:
        chunks = litellm.completion(messages=HELLO, stream=True, **way)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def tools():
    for way in WAYS:
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        first = litellm.completion(messages=messages, tools=[TOOL], **way).choices[0].message
        messages += [
            first.model_dump(),
            {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "Sunny"},
        ]
        assert litellm.completion(messages=messages, tools=[TOOL], **way).choices[0].message.content


run([whole, streamed, tools])
