import type { FastifyInstance } from 'fastify';
import { decodeEmbedRequest } from '../codecs/embeddings/decode-request.ts';
import { renderEmbedAnswer } from '../codecs/embeddings/render-answer.ts';
import { dollarsText } from '../lib/dollars.ts';
import { attribute } from './attribution.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { Exchange } from './exchange.ts';
import { warningsText } from './generation-facts.ts';
import { generationReading, readJsonBody } from './json-body.ts';

const route = { url: '/v1/embeddings' };

/** Offers embeddings. */
export function registerEmbeddings(app: FastifyInstance, edge: Edge): void {
  app.post(route.url, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    void answerEmbeddings(new Exchange(edge, request, reply, route));
  });
}

/** Never rejects. */
async function answerEmbeddings(exchange: Exchange): Promise<void> {
  const { edge, request, reply, call, facts } = exchange;
  try {
    const { value, raw } = await readJsonBody(edge, generationReading(edge, request, reply));
    const asked = decodeEmbedRequest(value);
    asked.strict = edge.isStrict(request.raw.headers);
    attribute(asked, request.raw.headers);
    call.nameRepeat(request, raw);
    const answer = await edge.embeddings.embed(asked, { headers: call, signal: exchange.signal });
    if (exchange.isGone) throw new ClientGone();
    facts.answers(answer.requestId, answer.limits);
    const headers = facts.addHeaders(call.headers, edge.options.runtime.now());
    if (answer.route !== '') headers['x-tollgate-route'] = answer.route;
    if (answer.warnings.length > 0) headers['x-tollgate-warnings'] = warningsText(answer.warnings);
    headers['x-tollgate-cost'] = dollarsText(answer.costNanoUsd);
    const repeats = facts.repeatedId;
    // What a repeat shows was counted when it was charged.
    const costNanoUsd = repeats === undefined ? answer.costNanoUsd : undefined;
    exchange.answer(headers, renderEmbedAnswer(answer), { status: 200, model: answer.model, repeats, costNanoUsd });
  } catch (thrown) {
    exchange.fail(thrown);
  }
}
