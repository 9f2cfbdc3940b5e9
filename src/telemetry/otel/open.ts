import { DiagLogLevel, diag } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from '../logger.ts';
import type { RequestTelemetry, RequestTrace } from '../request-telemetry.ts';
import { Instruments } from './instruments.ts';
import type { OtelSettings, SamplerSettings } from './settings.ts';
import { SpanTrace } from './span-trace.ts';
import { TraceIds } from './trace-ids.ts';

/** Traces and metrics that are exported. */
export interface OpenTelemetry {
  readonly startTrace: (telemetry: RequestTelemetry) => RequestTrace;
  /** Sends everything that has not been sent, and stops. Resolves even if sending fails, after two seconds at the latest. */
  close(): Promise<void>;
}

const scope = 'tollgate';
/** An unreachable collector must not delay the gateway's stop: the exporters would retry for half a minute. */
const closeMs = 2_000;

/**
 * Starts the export. This module is loaded only if environment variables enable it, because it takes tens of megabytes of memory and
 * delays the start by tens of milliseconds.
 */
export function openOpenTelemetry(settings: OtelSettings, version: string, logger: Logger): OpenTelemetry {
  logFailures(logger);
  const resource = resourceFromAttributes({ 'service.name': scope, 'service.version': version }).merge(
    detectResources({ detectors: [serviceInstanceIdDetector, resourceAttributesEnvDetector, serviceNameEnvDetector] }),
  );
  const ids = new TraceIds(toSampler({ ...settings.sampler, parentBased: false }));
  const traces = settings.traces ? openTraces(settings, resource, ids) : undefined;
  const metrics = settings.metrics ? openMetrics(settings, resource) : undefined;
  const tools = {
    tracer: traces?.getTracer(scope, version),
    ids,
    instruments: metrics === undefined ? undefined : new Instruments(metrics.getMeter(scope, version)),
  };
  return {
    startTrace: telemetry => new SpanTrace(tools, telemetry),
    close: async () => {
      await Promise.race([Promise.allSettled([traces?.shutdown(), metrics?.shutdown()]), after(closeMs)]);
    },
  };
}

function openTraces({ sampler, batch, headers }: OtelSettings, resource: Resource, ids: TraceIds): TracerProvider {
  const exporter = new OTLPTraceExporter({ headers: { ...headers.traces } });
  return new TracerProvider({
    resource,
    idGenerator: ids,
    sampler: toSampler(sampler),
    spanProcessors: [new BatchSpanProcessor({ ...batch, exporter })],
  });
}

function toSampler({ kind, ratio, parentBased }: SamplerSettings): Sampler {
  const samplers = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const root = samplers[kind]();
  return parentBased ? new ParentBasedSampler({ root }) : root;
}

function openMetrics({ metricIntervalMs, metricTimeoutMs, headers }: OtelSettings, resource: Resource): MeterProvider {
  const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter({ headers: { ...headers.metrics } }),
    exportIntervalMillis: metricIntervalMs,
    exportTimeoutMillis: Math.min(metricTimeoutMs, metricIntervalMs),
  });
  return new MeterProvider({ resource, readers: [reader] });
}

/** Logs failed exports, which do not affect the gateway: each message once, at most 20 in all. Addresses are removed and messages cut, because headers and addresses may contain credentials. */
function logFailures(logger: Logger): void {
  const logged = new Set<string>();
  const write = (message: string): void => {
    const text = message.replaceAll(/https?:\/\/\S+/g, '[address]').slice(0, 200);
    if (logged.has(text) || logged.size >= 20) return;
    logged.add(text);
    logger.warn({ reason: text }, 'telemetry could not be exported');
  };
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: write, warn: write, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

function after(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms).unref();
  });
}
