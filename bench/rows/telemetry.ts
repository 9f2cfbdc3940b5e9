import { compare, formatRates, formatThreads, warmUp } from '../compare.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { startCollector, startGateway, startUpstream } from '../targets.ts';

/** Measures the CPU time of a whole answer with a trace of every tenth request, and without telemetry. It has twice as many alternating runs as other benches, because the difference is only a few percent. */
export async function telemetry(settings: Settings): Promise<Row[]> {
  const upstream = await startUpstream();
  const collector = await startCollector();
  const off = await startGateway(upstream);
  const on = await startGateway(upstream, {
    env: {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${collector.traffic('short').port}/v1/traces`,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.1',
    },
  });
  try {
    for (const target of [off, on]) await warmUp(target, settings);
    const runs = await compare(
      [on, off],
      { model: 'short', connections: 128 },
      { ...settings, rounds: settings.rounds * 2 },
    );
    const [traced, plain] = runs;
    const percent = (traced.cpuUs / plain.cpuUs - 1) * 100;
    return [
      {
        what: `CPU of a whole chat answer, traces of 1 in 10 compared with telemetry off, medians of ${settings.rounds * 2} alternating runs`,
        measured: `${formatNumber(percent)} % more (${formatNumber(traced.cpuUs)} : ${formatNumber(plain.cpuUs)} µs; ${formatRates(runs, 'answers')})`,
        target: 'at most 5 %',
        reached: percent <= 5,
      },
      { what: '… by thread, µs, traces of 1 in 10', measured: formatThreads(traced) },
      { what: '… off', measured: formatThreads(plain) },
    ];
  } finally {
    for (const target of [on, off, collector, upstream]) await target.stop();
  }
}
