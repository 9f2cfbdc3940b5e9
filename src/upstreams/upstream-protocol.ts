import type { UpstreamCodec } from '../codecs/codec.ts';
import type { Authentication } from './authentication.ts';

/** What is the same for all upstreams of a wire protocol. */
export interface UpstreamProtocol {
  readonly codec: UpstreamCodec;
  readonly authentication: Authentication;
  /** What follows the base URL for a model, query included. `whole`: the answer is not to be streamed. */
  path(model: string, whole: boolean): string;
  /** The names of tools that it takes; others are replaced on the way there and back. */
  readonly toolName: RegExp;
  /** Free-form tools are sent as functions with one string, `input`; their calls are restored. */
  readonly lacksCustomTools?: true;
  /** The tool whose call is the answer, where the codec sends a schema as one. Absent: it never does. */
  readonly answerTool?: string;
  /** Answers may end with a pause, after which the upstream wants to be asked to go on. */
  readonly mayPause?: true;
  /** Whether a model gives one answer to a request only: several are asked for by as many calls. Absent: every model gives several. */
  givesOne?(model: string): boolean;
  /** Sent with every call, lower-case names; what the client sent and what is configured wins. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A header whose values of the client and of the configuration are both sent, joined. */
  readonly joinedHeader?: string;
}
