import type { Annotation, Extra, Item, Part, Protocol } from '../gen/tollgate/v1/content_pb.ts';
import { type Extension, ExtensionScope, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { Tool } from '../gen/tollgate/v1/request_pb.ts';
import { extension } from '../generation/events.ts';
import type { JsonObject } from './codec.ts';
import { exactText, parseExact } from '../lib/exact-json.ts';
import { unknownMembers } from './json.ts';
import { findUnknownMembers, type Shape } from './unknown-members.ts';

/** JSON that belongs to one protocol. */
interface ProtocolJson {
  readonly protocol: Protocol;
  readonly json: string;
}

/** Carries the members that only one protocol has, as JSON. The codecs of other protocols ignore them. */
export class ProtocolExtras {
  readonly #protocol: Protocol;

  constructor(protocol: Protocol) {
    this.#protocol = protocol;
  }

  /** Parses the JSON of a value of this protocol, with lossy values marked (`parseExact`); undefined if it belongs to another one. */
  own(value: ProtocolJson): JsonObject | undefined {
    return value.protocol === this.#protocol ? (parseExact(value.json).value as JsonObject) : undefined;
  }

  /** Returns the members that only this protocol has; an empty object if there are none or they belong to another protocol. */
  members(extra: Extra | undefined): JsonObject {
    return extra === undefined || extra.json === '' ? {} : (this.own(extra) ?? {});
  }

  /** Returns the members of all extensions with the given scope that belong to no item; if several have the same name, the last one counts. */
  ofExtensions(extensions: readonly Extension[], scope: ExtensionScope): JsonObject {
    const members: JsonObject = {};
    for (const each of extensions) {
      if (each.scope === scope && each.item === undefined) Object.assign(members, this.members(each.extra));
    }
    return members;
  }

  /** Returns an extra with the given members. */
  of(members: object): Extra {
    return { $typeName: 'tollgate.v1.Extra', protocol: this.#protocol, json: exactText(members) };
  }

  /** Returns the members of a frame that its shape does not have, with the frame's type; undefined if there are none. */
  unknownInFrame(type: string, frame: JsonObject, shape: Shape): Extra | undefined {
    const rest = findUnknownMembers(frame, shape);
    return rest === undefined ? undefined : this.of({ ...rest, type });
  }

  /** Returns the members of a value that are not `known`; undefined if there are none. */
  unknown(value: object, known: ReadonlySet<string>): Extra | undefined {
    const unknown = unknownMembers(value, known);
    return unknown === undefined ? undefined : this.of(unknown);
  }

  /** Returns a citation that only this protocol can express. */
  annotation(value: JsonObject): Annotation {
    return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'other', value: this.of(value) } };
  }

  /** Returns the content of an item for an action of the upstream's own tool. */
  serverTool(value: unknown): Item['content'] {
    const json = exactText(value);
    return { case: 'serverTool', value: { $typeName: 'tollgate.v1.ServerTool', protocol: this.#protocol, json } };
  }

  /** Returns the content of a part whose type the contract does not have. */
  unknownPart(value: JsonObject): Part['content'] {
    const unknown = { protocol: this.#protocol, path: '', json: exactText(value), message: '', hint: false };
    return { case: 'unknown', value: { $typeName: 'tollgate.v1.Unknown', ...unknown } };
  }

  /** Returns a tool that the upstream itself runs. */
  hostedTool(tool: { readonly type: string }): Tool['tool'] {
    const hosted = { protocol: this.#protocol, type: tool.type, json: JSON.stringify(tool) };
    return { case: 'hosted', value: { $typeName: 'tollgate.v1.HostedTool', ...hosted } };
  }
}

/** Adds an extension event of a choice, if there are members. */
export function extend(events: GenerationEvent[], choice: number, scope: ExtensionScope, extra?: Extra): void {
  if (extra !== undefined) events.push(extension(choice, scope, extra));
}

/** Adds an extension event with the unknown members of a frame, if there are any; `item`: the item that the frame belongs to. */
export function extendFrame(events: GenerationEvent[], item: number | undefined, extra: Extra | undefined): void {
  if (extra === undefined) return;
  const event = extension(0, ExtensionScope.FRAME, extra);
  if (item !== undefined && event.event.case === 'extension') event.event.value.item = item;
  events.push(event);
}
