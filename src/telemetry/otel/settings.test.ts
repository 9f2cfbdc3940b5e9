import { expect, test } from 'vitest';
import { readOtelSettings } from './settings.ts';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };

test('nothing is exported unless a variable says so', () => {
  expect(readOtelSettings({})).toBeUndefined();
  expect(readOtelSettings({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'always_on' })).toBeUndefined();
  expect(readOtelSettings({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBeUndefined();
  expect(
    readOtelSettings({ ...endpoint, OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' }),
  ).toBeUndefined();
});

test('an endpoint or an exporter enables a signal', () => {
  expect(readOtelSettings(endpoint)).toMatchObject({ traces: true, metrics: true, warnings: [] });
  expect(readOtelSettings({ OTEL_TRACES_EXPORTER: 'otlp' })).toMatchObject({ traces: true, metrics: false });
  expect(readOtelSettings({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://x/v1/metrics' })).toMatchObject({
    traces: false,
    metrics: true,
  });
});

test.each([
  ['', '', { kind: 'always_on', ratio: 1, parentBased: true }],
  ['always_off', '', { kind: 'always_off', ratio: 1, parentBased: false }],
  ['traceidratio', '0.1', { kind: 'traceidratio', ratio: 0.1, parentBased: false }],
  ['parentbased_traceidratio', '0.25', { kind: 'traceidratio', ratio: 0.25, parentBased: true }],
])('the sampler %s %s', (name, argument, sampler) => {
  const settings = readOtelSettings({ ...endpoint, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: argument });
  expect(settings).toMatchObject({ sampler, warnings: [] });
});

test('a warning names each unsupported setting, and what is done instead', () => {
  const settings = readOtelSettings({
    ...endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_BSP_SCHEDULE_DELAY: '-1',
  });
  expect(settings?.warnings).toEqual([
    'OTLP over grpc is not supported: traces are sent as http/protobuf',
    'OTLP over grpc is not supported: metrics are sent as http/protobuf',
    'OTEL_TRACES_SAMPLER=jaeger_remote is not supported: parentbased_always_on is used',
    'OTEL_BSP_SCHEDULE_DELAY must be a whole number above 0: 5000 is used',
  ]);
  expect(settings?.batch.scheduledDelayMillis).toBe(5_000);
});
