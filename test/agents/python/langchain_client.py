"""LangChain over both official interfaces: whole, streamed, tools, structured answers."""

from conversation import KEY, MODEL, URL, run
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sunny in {city}"


def models():
    yield ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
    yield ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key=KEY, max_retries=0, use_responses_api=True)
    yield ChatAnthropic(model=MODEL, base_url=URL, api_key=KEY, max_retries=0, max_tokens=500)


def whole():
    for model in models():
        assert model.invoke("Say hello.").text


def streamed():
    for model in models():
        assert "".join(chunk.text for chunk in model.stream("Say hello."))


def tools():
    for model in models():
        bound = model.bind_tools([weather])
        messages = [HumanMessage("What is the weather in Paris?")]
        first = bound.invoke(messages)
        call = first.tool_calls[0]
        messages += [first, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
        assert bound.invoke(messages).text


def structured():
    for model in models():
        assert isinstance(model.with_structured_output(Person).invoke("Who?"), Person)


run([whole, streamed, tools, structured])
