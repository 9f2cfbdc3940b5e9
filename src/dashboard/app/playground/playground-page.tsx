import { Button, NativeSelect, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import { type SubmitEvent, useRef, useState } from 'react';
import type { Endpoint } from '../../../gen/tollgate/v1/request_pb.ts';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { curlCommand } from '../data/shell-words.ts';
import { may, useViewer } from '../data/viewer.ts';
import { PageTitle, Problem } from '../parts/page.tsx';
import { Snippet } from '../parts/copy.tsx';
import { AnswerPanel, type Run } from './answer-panel.tsx';
import { ask, type Image, type Question, readTools } from './ask.ts';
import { interfaces, type TextInterface } from './code.ts';

const route = getRouteApi('/playground');

/** The values of the form, except those that are in the query of the page's URL. */
interface Draft {
  readonly instructions: string;
  readonly prompt: string;
  readonly maxTokens: string;
  readonly tools: string;
  readonly image: Image | undefined;
}

const firstDraft: Draft = { instructions: '', prompt: 'Say hello.', maxTokens: '', tools: '', image: undefined };

/** Returns the page's runs, and functions that start and stop them. */
function useRuns(): {
  runs: readonly Run[];
  start: (questions: readonly Question[], key: string) => void;
  stop: () => void;
} {
  const [runs, setRuns] = useState<readonly Run[]>([]);
  const client = useQueryClient();
  const abort = useRef<AbortController>(undefined);
  const change = (index: number, values: Partial<Run>): void =>
    setRuns(before => before.map((run, place) => (place === index ? { ...run, ...values } : run)));
  const askOne = async (question: Question, index: number, key: string, signal: AbortSignal): Promise<void> => {
    try {
      await ask(question, key, signal, answer => change(index, { answer }));
    } catch (error) {
      change(index, { error });
    }
    change(index, { isRunning: false });
  };
  const start = async (questions: readonly Question[], key: string): Promise<void> => {
    const controller = new AbortController();
    abort.current = controller;
    const { signal } = controller;
    setRuns(questions.map(({ model }) => ({ model, answer: { text: '' }, isRunning: true })));
    await Promise.all(questions.map((question, index) => askOne(question, index, key, signal)));
    await client.invalidateQueries();
  };
  return { runs, start: (questions, key) => void start(questions, key), stop: () => abort.current?.abort() };
}

function PlaygroundPage() {
  const { role } = useViewer();
  const search = route.useSearch();
  const [key, setKey] = useState('');
  const [draft, setDraft] = useState(firstDraft);
  const [fault, setFault] = useState<string>();
  const models = useQuery(CatalogService.method.listModels, {});
  const { runs, start, stop } = useRuns();
  const chosenInterface = interfaces.find(({ name }) => name === search.interface) ?? interfaces[0];
  const usable = (models.data?.models ?? []).filter(({ endpoints }) => endpoints.includes(chosenInterface.endpoint));
  const ids = usable.map(({ id }) => id);
  const chosen = [search.model ?? ids[0], search.beside].filter(id => id !== undefined);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    try {
      start(
        chosen.map(model => toQuestion(draft, model, chosenInterface.endpoint)),
        key,
      );
      setFault(undefined);
    } catch (error) {
      setFault(toolsFault(error));
    }
  };
  const isRunning = runs.some(run => run.isRunning);
  const needsKey = role !== 'holder' && key === '';
  return (
    <>
      <PageTitle name="Playground" />
      <form className="panel form" onSubmit={submit}>
        <Choices ids={ids} chosen={chosen} />
        {role !== 'holder' && <KeyField value={key} onChange={setKey} />}
        <PromptFields draft={draft} onChange={setDraft} />
        {fault !== undefined && (
          <p role="alert" className="failed">
            {fault}
          </p>
        )}
        <div className="actions">
          <Button type="submit" disabled={isRunning || needsKey || draft.prompt === '' || chosen.length === 0}>
            Send
          </Button>
          {isRunning && (
            <Button variant="default" onClick={stop}>
              Stop
            </Button>
          )}
          {needsKey && <span className="small quiet">Sending a request needs an API key: paste one, or make one.</span>}
        </div>
      </form>
      {runs.length > 0 && (
        <div className={runs.length > 1 ? 'columns' : undefined}>
          {runs.map((run, index) => (
            <AnswerPanel key={index} run={run} />
          ))}
        </div>
      )}
      {chosen[0] !== undefined && <AsCode draft={draft} model={chosen[0]} chosenInterface={chosenInterface} />}
    </>
  );
}

/** Returns the request that the form describes, for one model. Throws if the tools can't be read. */
function toQuestion(draft: Draft, model: string, endpoint: Endpoint): Question {
  const { instructions, prompt, maxTokens, tools, image } = draft;
  const maxOutputTokens = maxTokens === '' ? undefined : Number(maxTokens);
  return { model, endpoint, instructions, prompt, maxOutputTokens, tools: readTools(tools), image };
}

function toolsFault(error: unknown): string {
  return `The tools can’t be read: ${error instanceof Error ? error.message : String(error)}`;
}

interface AsCodeProps {
  readonly draft: Draft;
  readonly model: string;
  readonly chosenInterface: TextInterface;
}

function AsCode({ draft, model, chosenInterface }: AsCodeProps) {
  const viewer = useViewer();
  const [text, setText] = useState<string>();
  const show = (): void => {
    try {
      const { endpoint, path, streamPath, toBody } = chosenInterface;
      const json = JSON.stringify(toBody(toQuestion(draft, model, endpoint)), null, 2);
      setText(curlCommand({ ...viewer, role: 'holder' }, streamPath?.(model) ?? path, { method: 'POST', json }));
    } catch (error) {
      setText(toolsFault(error));
    }
  };
  return (
    <section aria-label="As code">
      <p>
        <Button size="xs" variant="default" onClick={show}>
          As code
        </Button>
      </p>
      {text !== undefined && <Snippet text={text} label="the request as curl" />}
    </section>
  );
}

function Choices({ ids, chosen }: { readonly ids: readonly string[]; readonly chosen: readonly string[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (values: Record<string, string | undefined>): void =>
    void navigate({ search: before => ({ ...before, ...values }), replace: true });
  return (
    <div className="filters" style={{ margin: 0 }}>
      <NativeSelect
        className="field"
        size="xs"
        label="Interface"
        value={search.interface ?? interfaces[0].name}
        data={interfaces.map(({ name }) => name)}
        onChange={event => change({ interface: event.currentTarget.value })}
      />
      <NativeSelect
        className="field"
        size="xs"
        label="Model"
        value={chosen[0] ?? ''}
        data={[...ids]}
        onChange={event => change({ model: event.currentTarget.value })}
      />
      <NativeSelect
        className="field"
        size="xs"
        label="Compare with"
        value={search.beside ?? ''}
        data={[{ value: '', label: 'None' }, ...ids.map(id => ({ value: id, label: id }))]}
        onChange={event => change({ beside: event.currentTarget.value || undefined })}
      />
    </div>
  );
}

/** The field for the key that pays. The key is only in this page's memory, and is forgotten when the page is left. */
function KeyField({ value, onChange }: { readonly value: string; readonly onChange: (key: string) => void }) {
  const viewer = useViewer();
  const { account } = viewer;
  const client = useQueryClient();
  const make = useMutation({
    mutationFn: async () => account?.createKey({ label: 'playground' }),
    onSuccess: key => onChange(key?.key ?? ''),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <>
      {make.error !== null && <Problem error={make.error} />}
      <div className="filters" style={{ margin: 0 }}>
        <TextInput
          className="field-wide"
          size="xs"
          label="API key that pays"
          description="Only in this page’s memory."
          type="password"
          autoComplete="off"
          value={value}
          onChange={event => onChange(event.currentTarget.value.trim())}
        />
        {account !== undefined && may(viewer, 'keys:create') && (
          <Button size="xs" variant="default" loading={make.isPending} onClick={() => make.mutate()}>
            Make a key
          </Button>
        )}
      </div>
    </>
  );
}

function PromptFields({ draft, onChange }: { readonly draft: Draft; readonly onChange: (draft: Draft) => void }) {
  const readImage = async (file: File | undefined): Promise<void> => {
    const image = file && { mediaType: file.type, base64: await readBase64(file) };
    onChange({ ...draft, image });
  };
  return (
    <>
      <Textarea
        label="Prompt"
        rows={4}
        value={draft.prompt}
        onChange={event => onChange({ ...draft, prompt: event.currentTarget.value })}
      />
      <details>
        <summary className="small">Instructions, tools, image, limit</summary>
        <div className="form" style={{ marginTop: 12 }}>
          <Textarea
            label="Instructions"
            rows={2}
            value={draft.instructions}
            onChange={event => onChange({ ...draft, instructions: event.currentTarget.value })}
          />
          <Textarea
            label="Tools, as JSON"
            description='{ "name": "weather", "description": "…", "parameters": { … } }, or a list of these'
            rows={3}
            value={draft.tools}
            onChange={event => onChange({ ...draft, tools: event.currentTarget.value })}
          />
          <TextInput
            label="Image"
            type="file"
            accept="image/*"
            onChange={event => void readImage(event.currentTarget.files?.[0])}
          />
          <TextInput
            label="Maximum output tokens"
            inputMode="numeric"
            value={draft.maxTokens}
            onChange={event =>
              onChange({ ...draft, maxTokens: event.currentTarget.value.replaceAll(/\D/g, '').slice(0, 7) })
            }
          />
        </div>
      </details>
    </>
  );
}

/** Returns the bytes of a file in base64. */
async function readBase64(file: File): Promise<string> {
  const reader = new FileReader();
  const read = new Promise<string>((done, failed) => {
    reader.addEventListener('load', () => done(typeof reader.result === 'string' ? reader.result : ''));
    reader.addEventListener('error', () => failed(new Error('The file can’t be read.', { cause: reader.error })));
  });
  reader.readAsDataURL(file);
  const url = await read;
  return url.slice(url.indexOf(',') + 1);
}

/** The page for trying models. */
export const Route = createLazyRoute('/playground')({ component: PlaygroundPage });
