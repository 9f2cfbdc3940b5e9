"""The official Anthropic client: whole, streamed, tools, thinking, counting."""

from anthropic import Anthropic
from conversation import KEY, MODEL, URL, WEATHER, run

client = Anthropic(base_url=URL, api_key=KEY, max_retries=0)
TOOLS = [{"name": "weather", "description": "The weather of a city.", "input_schema": WEATHER}]
HELLO = [{"role": "user", "content": "Say hello."}]


def whole():
    answer = client.messages.create(model=MODEL, max_tokens=500, messages=HELLO)
    assert answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens")


def streamed():
    with client.messages.stream(model=MODEL, max_tokens=500, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text and final.usage.output_tokens > 0


def tools():
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    first = client.messages.create(model=MODEL, max_tokens=500, messages=messages, tools=TOOLS)
    call = next(block for block in first.content if block.type == "tool_use")
    assert first.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny"}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    final = client.messages.create(model=MODEL, max_tokens=500, messages=messages, tools=TOOLS)
    assert any(block.type == "text" for block in final.content)


def thinking():
    answer = client.messages.create(
        model=MODEL, max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 1024}, messages=HELLO
    )
    assert any(block.type == "text" for block in answer.content)


def counted():
    assert client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens > 0


run([whole, streamed, tools, thinking, counted])
