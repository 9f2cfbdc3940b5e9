import type { Annotation, Extra, Item, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { Extension, ExtensionScope, GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { Tool } from '../gen/tollgate/v1/request_pb.ts';
import { extension } from '../generation/events.ts';
import type { JsonObject } from './codec.ts';
import { unknownMembers } from './json.ts';

/** JSON that belongs to one protocol. */
interface ProtocolJson {
  readonly protocol: Protocol;
  readonly json: string;
}

/** Carries what one protocol says beyond the model: as JSON, which the codecs of other protocols leave alone. */
export class ProtocolExtras {
  readonly #protocol: Protocol;

  constructor(protocol: Protocol) {
    this.#protocol = protocol;
  }

  /** Returns the JSON of a value of this protocol; undefined if it is of another one. */
  own(value: ProtocolJson): JsonObject | undefined {
    return value.protocol === this.#protocol ? (JSON.parse(value.json) as JsonObject) : undefined;
  }

  /** Returns the members that this protocol alone knows; none if there are none or they belong to another protocol. */
  members(extra: Extra | undefined): JsonObject {
    return extra === undefined || extra.json === '' ? {} : (this.own(extra) ?? {});
  }

  /** Returns the members of all extensions of one place; of several with one name the last one stands. */
  ofExtensions(extensions: readonly Extension[], scope: ExtensionScope): JsonObject {
    const members: JsonObject = {};
    for (const each of extensions) if (each.scope === scope) Object.assign(members, this.members(each.extra));
    return members;
  }

  /** Returns an extra with the given members. */
  of(members: object): Extra {
    return { $typeName: 'tollgate.v1.Extra', protocol: this.#protocol, json: JSON.stringify(members) };
  }

  /** Returns the members of a value that are not `known`; undefined if there are none. */
  unknown(value: object, known: ReadonlySet<string>): Extra | undefined {
    const unknown = unknownMembers(value, known);
    return unknown === undefined ? undefined : this.of(unknown);
  }

  /** Returns a citation that only this protocol can say. */
  annotation(value: JsonObject): Annotation {
    return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'other', value: this.of(value) } };
  }

  /** Returns the content of an item for something that a tool of the upstream did. */
  serverTool(value: unknown): Item['content'] {
    const json = JSON.stringify(value);
    return { case: 'serverTool', value: { $typeName: 'tollgate.v1.ServerTool', protocol: this.#protocol, json } };
  }

  /** Returns a tool that the upstream itself runs. */
  hostedTool(tool: { readonly type: string }): Tool['tool'] {
    const hosted = { protocol: this.#protocol, type: tool.type, json: JSON.stringify(tool) };
    return { case: 'hosted', value: { $typeName: 'tollgate.v1.HostedTool', ...hosted } };
  }
}

/** Adds the event of an extension of a choice; none if there is nothing in it. */
export function extend(events: GenerationEvent[], choice: number, scope: ExtensionScope, extra?: Extra): void {
  if (extra !== undefined) events.push(extension(choice, scope, extra));
}
