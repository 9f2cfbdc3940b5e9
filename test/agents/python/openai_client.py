"""The official OpenAI client: Chat Completions and Responses, whole and streamed, with tools and a schema."""

from conversation import KEY, MODEL, URL, WEATHER, run
from openai import BadRequestError, OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


class Person(BaseModel):
    name: str
    age: int


def chat_whole():
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Say hello."}])
    assert answer.choices[0].message.content and answer.usage.total_tokens > 0


def chat_streamed():
    text, usage = "", None
    for chunk in client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say hello."}],
        stream=True,
        stream_options={"include_usage": True},
    ):
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text and usage.total_tokens > 0


def chat_tools():
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and first.choices[0].finish_reason == "tool_calls"
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny"}]
    final = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
    assert final.choices[0].message.content


def chat_schema():
    answer = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": "Who?"}], response_format=Person
    )
    assert isinstance(answer.choices[0].message.parsed, Person)


def responses_whole_and_chained():
    first = client.responses.create(model=MODEL, input="Say hello.")
    assert first.output_text and first.usage.total_tokens > 0
    second = client.responses.create(model=MODEL, input="And again.", previous_response_id=first.id)
    assert second.output_text and second.previous_response_id == first.id


def responses_streamed():
    with client.responses.stream(model=MODEL, input="Say hello.") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text


def responses_tools():
    tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
    first = client.responses.create(model=MODEL, input="What is the weather in Paris?", tools=tools)
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}
    final = client.responses.create(model=MODEL, input=[result], previous_response_id=first.id, tools=tools)
    assert final.output_text


def refusals_are_typed():
    try:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], temperature="x")
    except Exception as error:
        assert getattr(error, "status_code", 0) == 422, error
    else:
        raise AssertionError("it was accepted")
    try:
        client.chat.completions.create(model="no/such", messages=[{"role": "user", "content": "Hi"}])
    except BadRequestError as error:
        assert error.code == "model_not_found"


run([
    chat_whole,
    chat_streamed,
    chat_tools,
    chat_schema,
    responses_whole_and_chained,
    responses_streamed,
    responses_tools,
    refusals_are_typed,
])
