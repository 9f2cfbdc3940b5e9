/**
 * How a server deviates from its protocol: what it refuses, and what it calls otherwise. Absent members: as in the protocol. The data, with
 * sources, is in `src/upstreams/dialects.ts`.
 */
export interface Dialect {
  /** Chat: the only name of the output limit that the server knows. */
  readonly limitName?: 'max_tokens' | 'max_completion_tokens';
  /** The output limit counts only what the client sees, not the reasoning. */
  readonly limitIsVisible?: true;
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
  /** Chat: the server reads system messages only before all others. */
  readonly systemFirst?: true;
  /** Chat: the number of letters and digits that the id of a tool call must have. Other ids are replaced, equal ones by equal ones. */
  readonly callIdLength?: number;
  /** Chat: where earlier reasoning is sent: under a name, in thinking parts of the content, or not at all. */
  readonly reasoning?: 'reasoning' | 'reasoning_content' | 'parts' | 'refused';
  /** Chat: names that members of the body have on this server. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** Members of the body that the server refuses. They are left out, with a warning. */
  readonly refused?: readonly string[];
  /** Chat: members of messages that the server refuses. They are left out. */
  readonly refusedInMessages?: readonly string[];
  /** Chat: the members that switch thinking off, instead of `reasoning_effort: none`. */
  readonly thinkingOff?: Readonly<Record<string, Readonly<Record<string, string>> | string>>;
  /** The values of the effort that the server takes, from the lowest; others are replaced by the nearest. Empty: none, it is left out. */
  readonly efforts?: readonly Effort[];
  /** Chat: how an answer's schema is requested: by a JSON object whose schema is in the prompt. */
  readonly schemas?: 'json_object';
  /** What some models of the server deviate in beyond that; the first pattern that matches the server's name of the model applies. */
  readonly models?: readonly (readonly [names: RegExp, dialect: Omit<Dialect, 'models'>])[];
}

/** The values of `reasoning_effort`. */
export type Effort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max';

/** Returns the dialect for a model of the server. */
export function dialectFor(dialect: Dialect, model: string): Dialect {
  const own = dialect.models?.find(([names]) => names.test(model))?.[1];
  return own === undefined
    ? dialect
    : { ...dialect, ...own, refused: [...(dialect.refused ?? []), ...(own.refused ?? [])] };
}
