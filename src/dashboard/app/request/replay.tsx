import { fromJsonString } from '@bufbuild/protobuf';
import { Button, NativeSelect } from '@mantine/core';
import { createClient } from '@connectrpc/connect';
import { useQuery as useCall } from '@connectrpc/connect-query';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { CatalogService, type Model } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { GenerationService } from '../../../gen/tollgate/v1/generation_pb.ts';
import { Delivery, type GenerateRequest, GenerateRequestSchema } from '../../../gen/tollgate/v1/request_pb.ts';
import { count } from '../data/money.ts';
import { transport } from '../data/rpc.ts';
import { may, useViewer } from '../data/viewer.ts';
import { Problem } from '../parts/page.tsx';
import { type Answer, readAnswer } from '../playground/ask.ts';
import { AnswerPanel } from '../playground/answer-panel.tsx';
import { attoText } from './receipt.ts';

const generations = createClient(GenerationService, transport);
const attoPerPico = 1_000_000n;

/** Sends a stored request again: free to a built-in model, or to another model after showing the estimated cost. */
export function Replay({ contractJson, apiKeyId }: { readonly contractJson: string; readonly apiKeyId: bigint }) {
  const viewer = useViewer();
  const models = useCall(CatalogService.method.listModels, {});
  const all = (models.data?.models ?? []).filter(model => model.pricing?.outputPicoUsd !== undefined || isFree(model));
  const [chosen, setChosen] = useState('');
  const model = all.find(({ id }) => id === chosen) ?? all.find(isFree);
  const headers = { 'x-tollgate-api-key-id': `${apiKeyId}` };
  const [answer, setAnswer] = useState<Answer>();
  const estimate = useMutation({
    mutationFn: async (wanted: Model) => {
      const request = toRequest(contractJson, wanted.id);
      const { inputTokens } = await generations.countTokens({ request }, { headers });
      return { model: wanted.id, ...estimateCost(wanted, inputTokens, request.maxOutputTokens) };
    },
  });
  const send = useMutation({
    mutationFn: async (id: string) => {
      const began = performance.now();
      for await (const { events } of generations.generate(toRequest(contractJson, id), { headers })) {
        setAnswer(before => readAnswer(before ?? { text: '' }, events, performance.now() - began));
      }
    },
    onMutate: () => setAnswer({ text: '' }),
  });
  if (!may(viewer, 'keys:create') || model === undefined) return null;
  const known = estimate.data?.model === model.id ? estimate.data : undefined;
  return (
    <div role="group" aria-label="Replay">
      <h3>Replay</h3>
      <div className="filters" style={{ alignItems: 'end' }}>
        <NativeSelect
          className="field-wide"
          size="xs"
          label="Model"
          value={model.id}
          data={all.map(each => ({ value: each.id, label: isFree(each) ? `${each.id}, free of charge` : each.id }))}
          onChange={event => setChosen(event.currentTarget.value)}
        />
        {!isFree(model) && (
          <Button size="xs" variant="default" loading={estimate.isPending} onClick={() => estimate.mutate(model)}>
            Estimate
          </Button>
        )}
        <Button
          size="xs"
          disabled={!isFree(model) && known === undefined}
          loading={send.isPending}
          onClick={() => send.mutate(model.id)}
        >
          Send again
        </Button>
      </div>
      {known !== undefined && (
        <p className="number">
          About {count(known.inputTokens)} input tokens: {attoText(known.inputAtto)}
          {known.mostAtto === undefined
            ? '; its output has no limit.'
            : `; with all of its output at most ${attoText(known.mostAtto)}.`}{' '}
          The key of the request pays.
        </p>
      )}
      {estimate.error !== null && <Problem error={estimate.error} />}
      {answer !== undefined && (
        <AnswerPanel
          run={{ model: send.variables ?? '', answer, isRunning: send.isPending, error: send.error ?? undefined }}
        />
      )}
    </div>
  );
}

function isFree({ id }: Model): boolean {
  return id.endsWith(':free');
}

/** Returns a stored request as a streamed request to another model. */
function toRequest(contractJson: string, model: string): GenerateRequest {
  const request = fromJsonString(GenerateRequestSchema, contractJson, { ignoreUnknownFields: true });
  return { ...request, model, delivery: Delivery.STREAMED };
}

/**
 * Returns, at the listed prices, the cost of the input, and the cost with the longest possible output; `mostAtto` is undefined if nothing
 * limits the output.
 */
function estimateCost({ pricing, maxOutputTokens }: Model, inputTokens: number, limit: number | undefined) {
  const inputAtto = BigInt(inputTokens) * (pricing?.inputPicoUsd ?? 0n) * attoPerPico;
  const most = limit ?? maxOutputTokens;
  const outputAtto = most === undefined ? undefined : BigInt(most) * (pricing?.outputPicoUsd ?? 0n) * attoPerPico;
  return { inputTokens, inputAtto, mostAtto: outputAtto === undefined ? undefined : inputAtto + outputAtto };
}
