/** Patterns of environment variables that a developer may have for providers, a gateway or tracing, and that would change what a test sees or where it sends requests. */
const foreign = [
  // Variables for tests, like `TOLLGATE_TEST_ENGINE`, are kept.
  /^TOLLGATE_(?!TEST_)/,
  /_API_KEYS?$/,
  /^(OPENAI|ANTHROPIC|GEMINI|GOOGLE_GENAI|AZURE_OPENAI|OPENROUTER|OLLAMA|VLLM|LLAMA_CPP|LM_STUDIO|DATABRICKS|DEEPINFRA|CLOUDFLARE|HF_TOKEN|GITHUB_MODELS|AWS|GOOGLE_CLOUD|AZURE|LANGCHAIN|LANGSMITH|LANGGRAPH|OTEL)(_|$)/,
];

/** Removes providers' keys and addresses and all settings of a gateway from the environment, before tests start. */
export function cleanEnvironment(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(environment).filter(each => foreign.some(pattern => pattern.test(each)))) {
    delete environment[name];
  }
}
