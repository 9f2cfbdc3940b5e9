import type { FastifyReply, FastifyRequest } from 'fastify';
import { doneFrame, keepAlive, type ResponseEvent, sseFrame } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { AnswerHeaders } from '../call.ts';
import { ClientGone, type Disconnect } from '../client-gone.ts';
import type { Edge } from '../edge.ts';
import { clientError, readWindows } from '../error-answer.ts';
import { EventStream } from '../event-stream.ts';
import type { GenerationFacts } from '../generation-facts.ts';
import { limitHeaders } from '../limit-headers.ts';
import { recordRequest } from '../request-record.ts';
import { type ResponseStep, StepRenderer } from './step-renderer.ts';

/** A request that is answered with steps of a response. */
export interface StepJob {
  readonly edge: Edge;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly client: Disconnect;
  readonly facts: GenerationFacts;
}

/** What is streamed, and how. */
export interface StepSource {
  readonly steps: AsyncIterator<ResponseStep>;
  /** Events up to this number are known to the client already; -1: none. */
  readonly startingAfter: number;
  /** The frames of a failure before the response had a head, where the status line is gone already. */
  readonly failUnbegun: (error: GatewayError) => string[];
}

/** Sends a response's steps as a stream of frames, at the client's pace. Throws what has to be answered with a status of its own. */
export async function streamSteps(job: StepJob, source: StepSource): Promise<void> {
  const { edge, request, reply, client, facts } = job;
  const renderer = new StepRenderer(request.call.id);
  const framesOf = (events: readonly ResponseEvent[]): string =>
    events.map(event => (event.sequenceNumber > source.startingAfter ? sseFrame(event) : '')).join('');
  const frames = new EventStream(reply.raw, {
    keepAlive,
    keepAliveMs: edge.options.keepAliveMs,
    client,
    earlyHeaders: () => earlyHeaders(job),
    lastAnswer: () => edge.stopping(),
  });
  const streamEnded = edge.options.metrics.streamOpened(request.routeOptions.url ?? '');
  try {
    const last = await sendSteps(job, source.steps, { frames, render: step => framesOf(renderer.push(step)) });
    if (client.gone) throw new ClientGone();
    frames.end(last + doneFrame);
    recordRequest(edge, request, { ...facts.record(), status: 200, stream: true });
  } catch (thrown) {
    if (!frames.begun || client.gone) throw thrown;
    const error = clientError(thrown);
    const failed = renderer.begun ? [framesOf(renderer.fail(error)), doneFrame] : source.failUnbegun(error);
    frames.end(failed.join(''));
    recordRequest(edge, request, { ...facts.record(), status: 200, code: error.code, error, stream: true });
  } finally {
    frames.release();
    streamEnded();
  }
}

/**
 * Renders and sends step after step. Answers the frames of the last one, which leave with those that close the stream. A client that goes away ends
 * nothing here: its call is read on to the end, which the aborted signal brings about.
 */
async function sendSteps(
  { edge, request, client, facts }: StepJob,
  steps: AsyncIterator<ResponseStep>,
  { frames, render }: { frames: EventStream; render: (step: ResponseStep) => string },
): Promise<string> {
  let text = '';
  for (let next = await steps.next(); next.done !== true; next = await steps.next()) {
    if (client.gone) continue;
    try {
      const { events, end } = next.value;
      if (events.length > 0) facts.observe(events, () => request.call.elapsedMs());
      text += render(next.value);
      if (!frames.begun) frames.begin({ ...request.call.headers, ...facts.streamHeaders(edge.options.clock.now()) });
      if (text === '' || facts.completed !== undefined || end !== undefined) continue;
    } catch (thrown) {
      await abandon(steps, client);
      throw thrown;
    }
    const taken = frames.write(text);
    text = '';
    if (taken !== undefined) await taken;
  }
  return text;
}

/** Ends a call that nobody reads any more: an aborted signal and a reader that goes on to the end let the core settle, over every transport. */
async function abandon(steps: AsyncIterator<ResponseStep>, client: Disconnect): Promise<void> {
  client.stop();
  try {
    while ((await steps.next()).done !== true);
  } catch {
    // The call ends as it was told to; whatever the core says of it is in its own log.
  }
}

/** What can be told before the model has begun to answer: the key's windows. */
async function earlyHeaders({ edge, request: { call } }: StepJob): Promise<AnswerHeaders> {
  if (!call.tellsLimits) return call.headers;
  return { ...call.headers, ...limitHeaders(await readWindows(edge, call), edge.options.clock.now()) };
}
