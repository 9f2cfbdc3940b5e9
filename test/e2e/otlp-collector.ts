/** A collector of OTLP over HTTP, which parses what arrives with the protocol's message types. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';

interface AnyValue {
  readonly stringValue?: string | null;
  readonly intValue?: number | { toNumber(): number } | null;
  readonly doubleValue?: number | null;
  readonly boolValue?: boolean | null;
  readonly arrayValue?: { readonly values?: readonly AnyValue[] | null } | null;
}
type KeyValues = readonly { readonly key: string; readonly value: AnyValue }[];
interface RawSpan {
  readonly traceId: Uint8Array;
  readonly spanId: Uint8Array;
  readonly parentSpanId?: Uint8Array;
  readonly name: string;
  readonly kind: number;
  readonly attributes: KeyValues;
  readonly status?: { readonly code?: number } | null;
}
interface RawPoint {
  readonly attributes: KeyValues;
  readonly count?: number | { toNumber(): number };
  readonly sum?: number;
  readonly asDouble?: number;
}
interface Messages {
  readonly trace: {
    readonly v1: {
      readonly ExportTraceServiceRequest: {
        decode(bytes: Uint8Array): {
          readonly resourceSpans: readonly {
            readonly resource: { readonly attributes: KeyValues };
            readonly scopeSpans: readonly { readonly spans: readonly RawSpan[] }[];
          }[];
        };
      };
    };
  };
  readonly metrics: {
    readonly v1: {
      readonly ExportMetricsServiceRequest: {
        decode(bytes: Uint8Array): {
          readonly resourceMetrics: readonly {
            readonly scopeMetrics: readonly {
              readonly metrics: readonly {
                readonly name: string;
                readonly unit: string;
                readonly histogram?: { readonly dataPoints: readonly RawPoint[] } | null;
                readonly sum?: { readonly dataPoints: readonly RawPoint[] } | null;
              }[];
            }[];
          }[];
        };
      };
    };
  };
}

const { opentelemetry } = createRequire(import.meta.url)('otlp-protocol/build/src/generated/root.js') as {
  readonly opentelemetry: { readonly proto: { readonly collector: Messages } };
};
const { trace, metrics } = opentelemetry.proto.collector;

/** A value of an attribute. */
export type AttributeValue = string | number | boolean | readonly AttributeValue[] | undefined;

/** A span that has arrived. Ids in hexadecimal. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** '' for a root span. */
  readonly parentId: string;
  readonly name: string;
  readonly kind: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly resource: Readonly<Record<string, AttributeValue>>;
}

/** A point of a metric that has arrived. */
export interface CollectedPoint {
  readonly name: string;
  readonly unit: string;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly count: number | undefined;
  readonly sum: number | undefined;
}

/** A running collector. */
export class Collector {
  readonly #server = createServer((request, response) => {
    const parts: Buffer[] = [];
    this.credentials.add(request.headers.authorization);
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      this.#take(request.url ?? '', request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  readonly spans: CollectedSpan[] = [];
  /** The last export of each metric. */
  points: CollectedPoint[] = [];
  /** All bytes that have arrived, as text. */
  heard = '';
  exports = 0;
  /** The `authorization` headers of the exports. */
  readonly credentials = new Set<string | undefined>();

  static async start(): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>(done => {
      collector.#server.listen(0, '127.0.0.1', done);
    });
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>(done => {
      this.#server.close(() => done());
    });
  }

  #take(path: string, body: Buffer): void {
    this.exports += 1;
    this.heard += body.toString('latin1');
    if (path === '/v1/traces') this.#takeSpans(body);
    else if (path === '/v1/metrics') this.#takePoints(body);
  }

  #takeSpans(body: Buffer): void {
    for (const { resource, scopeSpans } of trace.v1.ExportTraceServiceRequest.decode(body).resourceSpans) {
      for (const { spans } of scopeSpans) {
        for (const span of spans) {
          this.spans.push({
            traceId: hex(span.traceId),
            spanId: hex(span.spanId),
            parentId: hex(span.parentSpanId),
            name: span.name,
            kind: span.kind,
            isError: span.status?.code === 2,
            attributes: values(span.attributes),
            resource: values(resource.attributes),
          });
        }
      }
    }
  }

  #takePoints(body: Buffer): void {
    const all = metrics.v1.ExportMetricsServiceRequest.decode(body).resourceMetrics.flatMap(each =>
      each.scopeMetrics.flatMap(scope => scope.metrics),
    );
    this.points = all.flatMap(
      ({ name, unit, histogram, sum }) =>
        (histogram ?? sum)?.dataPoints.map(point => ({
          name,
          unit,
          attributes: values(point.attributes),
          count: plainNumber(point.count),
          sum: point.sum ?? point.asDouble,
        })) ?? [],
    );
  }
}

const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex');

function plainNumber(value: number | { toNumber(): number } | null | undefined): number | undefined {
  return typeof value === 'object' && value !== null ? value.toNumber() : (value ?? undefined);
}

function values(list: KeyValues): Record<string, AttributeValue> {
  return Object.fromEntries(list.map(({ key, value }) => [key, readValue(value)]));
}

function readValue({ stringValue, intValue, doubleValue, boolValue, arrayValue }: AnyValue): AttributeValue {
  if (arrayValue != null) return (arrayValue.values ?? []).map(readValue);
  return stringValue ?? plainNumber(intValue) ?? doubleValue ?? boolValue ?? undefined;
}
