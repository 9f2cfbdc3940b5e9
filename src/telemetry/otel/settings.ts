/** The sampler, and its share of traces. */
export interface SamplerSettings {
  readonly kind: 'always_on' | 'always_off' | 'traceidratio';
  /** The share of the traces that begin here, from 0 to 1. */
  readonly ratio: number;
  /** True if the caller's trace, if there is one, decides whether a request is sampled. */
  readonly parentBased: boolean;
}

/**
 * The signals to export over OTLP, as the standard variables of OpenTelemetry say. OpenTelemetry's own packages read the
 * variables with the destination (`OTEL_EXPORTER_OTLP_*`).
 */
export interface OtelSettings {
  readonly traces: boolean;
  readonly metrics: boolean;
  readonly sampler: SamplerSettings;
  readonly batch: {
    readonly scheduledDelayMillis: number;
    readonly exportTimeoutMillis: number;
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
  };
  readonly metricIntervalMs: number;
  readonly metricTimeoutMs: number;
  /** Headers that are sent with every export. They may contain credentials. */
  readonly headers: { readonly traces: Headers; readonly metrics: Headers };
  /** Warnings for the log about variables that are not supported. */
  readonly warnings: readonly string[];
}

type Headers = Readonly<Record<string, string>>;
type Variables = Readonly<Record<string, string | undefined>>;

const endpoint = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const headers = 'OTEL_EXPORTER_OTLP_HEADERS';

/**
 * Reads which signals to export: those for which an endpoint is set or an exporter is named. Returns undefined if there are none, so that OpenTelemetry need not be loaded. Source: OpenTelemetry's
 * specification, "Environment variables".
 */
export function readOtelSettings(variables: Variables): OtelSettings | undefined {
  const read = (name: string): string => (variables[name] ?? '').trim();
  if (read('OTEL_SDK_DISABLED').toLowerCase() === 'true') return undefined;
  const warnings: string[] = [];
  const isOn = (signal: 'TRACES' | 'METRICS'): boolean => {
    const exporter = read(`OTEL_${signal}_EXPORTER`).toLowerCase();
    if (exporter === 'none') return false;
    if (exporter !== '' && exporter !== 'otlp') {
      warnings.push(`OTEL_${signal}_EXPORTER=${exporter} is not supported: only otlp and none are`);
      return false;
    }
    const isSet = exporter === 'otlp' || read(endpoint) !== '' || read(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`) !== '';
    const protocol = read(`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`) || read('OTEL_EXPORTER_OTLP_PROTOCOL');
    if (isSet && protocol !== '' && protocol !== 'http/protobuf') {
      warnings.push(`OTLP over ${protocol} is not supported: ${signal.toLowerCase()} are sent as http/protobuf`);
    }
    return isSet;
  };
  const [traces, metrics] = [isOn('TRACES'), isOn('METRICS')];
  if (!traces && !metrics) return undefined;
  const count = (name: string, preset: number): number => {
    const value = read(name);
    const parsed = Number(value);
    if (value !== '' && Number.isInteger(parsed) && parsed > 0) return parsed;
    if (value !== '') warnings.push(`${name} must be a whole number above 0: ${preset} is used`);
    return preset;
  };
  const maxQueueSize = count('OTEL_BSP_MAX_QUEUE_SIZE', 2048);
  return {
    traces,
    metrics,
    sampler: readSampler(read('OTEL_TRACES_SAMPLER'), read('OTEL_TRACES_SAMPLER_ARG'), warnings),
    batch: {
      scheduledDelayMillis: count('OTEL_BSP_SCHEDULE_DELAY', 5_000),
      exportTimeoutMillis: count('OTEL_BSP_EXPORT_TIMEOUT', 30_000),
      maxQueueSize,
      maxExportBatchSize: Math.min(count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512), maxQueueSize),
    },
    metricIntervalMs: count('OTEL_METRIC_EXPORT_INTERVAL', 60_000),
    metricTimeoutMs: count('OTEL_METRIC_EXPORT_TIMEOUT', 30_000),
    headers: {
      traces: readHeaders(read(headers), read('OTEL_EXPORTER_OTLP_TRACES_HEADERS')),
      metrics: readHeaders(read(headers), read('OTEL_EXPORTER_OTLP_METRICS_HEADERS')),
    },
    warnings,
  };
}

/** Reads `name=value` pairs, separated by commas, with percent-encoded values. Pairs of later texts win. */
function readHeaders(...texts: readonly string[]): Headers {
  const pairs = texts.flatMap(text => text.split(',')).map(pair => pair.split('='));
  return Object.fromEntries(
    pairs.flatMap(([name = '', ...value]) =>
      name.trim() === '' ? [] : [[name.trim(), decode(value.join('=').trim())]],
    ),
  );
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    // A value with a percent sign that is not percent-encoded is used as it is.
    return value;
  }
}

function readSampler(name: string, argument: string, warnings: string[]): SamplerSettings {
  const [, parent, kind = 'always_on'] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (name !== '' && !/^(parentbased_)?(always_on|always_off|traceidratio)$/.test(name)) {
    warnings.push(`OTEL_TRACES_SAMPLER=${name} is not supported: parentbased_always_on is used`);
    return { kind: 'always_on', ratio: 1, parentBased: true };
  }
  const ratio = argument === '' ? 1 : Number(argument);
  const isRatio = ratio >= 0 && ratio <= 1;
  if (!isRatio) warnings.push('OTEL_TRACES_SAMPLER_ARG must be 0 to 1: 1 is used');
  return {
    kind: kind as SamplerSettings['kind'],
    ratio: isRatio ? ratio : 1,
    parentBased: name === '' || parent !== undefined,
  };
}
