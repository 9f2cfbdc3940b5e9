import type { EmbedRequest, EmbedResponse } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Endpoint, GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { CreateResponseRequest, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';

/** Reads and writes the lines of a batch's files. The code that runs batches depends only on these types, not on the format of an interface. */

/** A line of an input file. */
export interface BatchLine {
  /** The client's name for the item, unique in its batch. */
  readonly customId: string;
  /** The body of the request: any JSON. */
  readonly body: unknown;
  /** The model, if the interface has it in the path and not in the body. */
  readonly model?: string;
}

/** The names of an item in its result line. */
export interface ItemName {
  readonly customId: string;
  /** The gateway's name for the item. */
  readonly itemId: string;
  readonly endpoint: Endpoint;
}

/** The same, with the id of the item's request. */
export interface RequestedItem extends ItemName {
  readonly requestId: string;
}

/** A result line, split where its cost is inserted: `head`, the cost, `tail`. `tail` undefined: the line has no cost. */
export interface ResultLine {
  readonly head: Uint8Array;
  readonly tail: Uint8Array | undefined;
}

/** A decoded body, and a function that renders its complete answer before it is charged. */
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
   * Reads a line of an input file. `isNew`: it is read for the first time, so its bounds are checked too. Rejects with `validation_error` or
   * `invalid_request`, with the invalid member as `param`.
   */
  readLine(line: Buffer, endpoint: Endpoint, isNew?: boolean): Promise<BatchLine>;
  /** Decodes the body of a line. Rejects with the error that a client with such a request would get. */
  decode(line: BatchLine, endpoint: Endpoint): Promise<BatchCall>;
  /** Renders the line of an item that has failed. */
  renderFailure(item: RequestedItem, error: GatewayError): Uint8Array;
  /** Renders the line of an item that was never run. */
  renderUnrun(item: ItemName, reason: 'expired' | 'cancelled'): Uint8Array;
}
