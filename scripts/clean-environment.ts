/** Names of one developer's providers, gateway and tracing, which would change what a test sees or send its requests away. */
const foreign = [
  // Those of tests say what they are to run with.
  /^TOLLGATE_(?!TEST_)/,
  /_API_KEYS?$/,
  /^(OPENAI|ANTHROPIC|GEMINI|GOOGLE_GENAI|AZURE_OPENAI|OPENROUTER|OLLAMA|VLLM|LLAMA_CPP|LM_STUDIO|LANGCHAIN|LANGSMITH|LANGGRAPH|OTEL)_/,
];

/** Takes providers' keys and addresses and every setting of the gateway out of this process's environment, before tests start. */
export function cleanEnvironment(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(environment).filter(each => foreign.some(pattern => pattern.test(each)))) {
    delete environment[name];
  }
}
