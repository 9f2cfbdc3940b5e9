import type { EmbedRequest, EmbedResponse } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Endpoint, GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { CreateResponseRequest, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';

/** The lines of a batch's files in the format of its interface: the code that runs the items does not depend on it. */

/** A line of requests. */
export interface BatchLine {
  /** The caller's name of the item, of which no two of a batch may be the same. */
  readonly customId: string;
  /** The body of the request, whatever JSON it is. */
  readonly body: unknown;
}

/** The item of a result line. */
export interface ItemName {
  readonly customId: string;
  /** The gateway's own name of the item. */
  readonly itemId: string;
  readonly endpoint: Endpoint;
}

/** An item with the name of its request. */
export interface RequestedItem extends ItemName {
  readonly requestId: string;
}

/** A result line around the place of its cost; `tail` undefined: it has no cost. */
export interface ResultLine {
  readonly head: Uint8Array;
  readonly tail: Uint8Array | undefined;
}

/** A decoded body, and how its answer is rendered: complete, and not charged yet. */
export type BatchCall =
  | {
      readonly kind: 'generation';
      readonly request: GenerateRequest;
      render(item: RequestedItem, events: readonly GenerationEvent[]): ResultLine;
    }
  | {
      readonly kind: 'response';
      readonly request: CreateResponseRequest & { readonly request: GenerateRequest };
      render(item: RequestedItem, head: ResponseHead, events: readonly GenerationEvent[]): ResultLine;
    }
  | {
      readonly kind: 'embeddings';
      readonly request: EmbedRequest;
      render(item: RequestedItem, answer: EmbedResponse): ResultLine;
    };

/** Reads and writes the lines of batches. */
export interface BatchCodec {
  /**
   * Reads a line of requests. `isNew`: it is the first time, so that its bounds are checked too. Rejects with `validation_error` or
   * `invalid_request`, with the wrong member as `param`.
   */
  readLine(line: Buffer, endpoint: Endpoint, isNew?: boolean): Promise<BatchLine>;
  /** Decodes the body of a line. Rejects with the error that the caller of such a request would get. */
  decode(line: BatchLine, endpoint: Endpoint): Promise<BatchCall>;
  /** Renders the line of an item that has failed. */
  renderFailure(item: RequestedItem, error: GatewayError): Uint8Array;
  /** Renders the line of an item that was never run. */
  renderUnrun(item: ItemName, reason: 'expired' | 'cancelled'): Uint8Array;
}
