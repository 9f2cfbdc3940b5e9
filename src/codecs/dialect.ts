/**
 * How a server deviates from its protocol: what it refuses, and what it calls otherwise. Absent members: as in the protocol. The data, with
 * sources, is in `src/upstreams/dialects.ts`.
 */
export interface Dialect {
  /** Chat: the only name of the output limit that the server knows. */
  readonly limitName?: 'max_tokens' | 'max_completion_tokens';
  /** Parts of the names of models whose output limit counts only what the client sees, not the reasoning. */
  readonly visibleLimit?: readonly string[];
  /** Chat: `stream_options` is refused; usage comes without it. */
  readonly streamOptions?: 'refused';
  /** A call returns only one choice, so `n` choices take `n` calls. */
  readonly choices?: 'one';
  /** The server reports token counts while it streams, if requested: in `timings` (llama.cpp) or in `usage` (vLLM). */
  readonly runningCounts?: 'timings' | 'usage';
  /** The server counts the tokens of a conversation at `/apply-template` and `/tokenize`. */
  readonly counting?: 'template';
  /** Chat: the role that messages with the role `developer` get. */
  readonly developer?: 'system';
  /** Chat: the text of the assistant's message that is put between a tool's result and a message of the user. */
  readonly afterResults?: string;
  /** Chat: the number of letters and digits that the id of a tool call must have. Other ids are replaced, equal ones by equal ones. */
  readonly callIdLength?: number;
  /** Chat: where earlier reasoning is sent: under a name, or in thinking parts of the content. */
  readonly reasoning?: 'reasoning' | 'reasoning_content' | 'parts';
  /** Chat: parts of the names of the models that take earlier reasoning; absent: all do. */
  readonly reasoningModels?: readonly string[];
  /** Chat: the values of `reasoning_effort` that models take, by a part of their names; the other models take none. Absent: all values. */
  readonly efforts?: Readonly<Record<string, readonly string[]>>;
  /** Chat: names that members of the body have on this server. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** Members of the body that the server refuses. They are left out, with a warning. */
  readonly refused?: readonly string[];
  /** Chat: members of messages that the server refuses. They are left out, with a warning; not from the results of tools, where they change nothing. */
  readonly refusedInMessages?: readonly string[];
  /** Chat: the members that switch thinking off, instead of `reasoning_effort: none`. */
  readonly thinkingOff?: Readonly<Record<string, Readonly<Record<string, string>> | string>>;
  /** Chat: how an answer's schema is requested: by a JSON object whose schema is in the prompt. */
  readonly schemas?: 'json_object';
}
