import { Button, NativeSelect, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import { type FormEvent, useRef, useState } from 'react';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { curlOf } from '../data/shell-words.ts';
import { may, useViewer } from '../data/viewer.ts';
import { PageTitle, Problem } from '../parts/page.tsx';
import { Snippet } from '../parts/copy.tsx';
import { AnswerPanel, type Run } from './answer-panel.tsx';
import { ask, type Image, type Question, readTools } from './ask.ts';
import { interfaces, toBody } from './code.ts';

const route = getRouteApi('/playground');

/** What is typed, beside what the address has. */
interface Draft {
  readonly instructions: string;
  readonly prompt: string;
  readonly maxTokens: string;
  readonly tools: string;
  readonly image: Image | undefined;
}

const firstDraft: Draft = { instructions: '', prompt: 'Say hello.', maxTokens: '', tools: '', image: undefined };

function PlaygroundPage() {
  const viewer = useViewer();
  const search = route.useSearch();
  const [key, setKey] = useState('');
  const [draft, setDraft] = useState(firstDraft);
  const [runs, setRuns] = useState<readonly Run[]>([]);
  const [fault, setFault] = useState<string>();
  const models = useQuery(CatalogService.method.listModels, {});
  const client = useQueryClient();
  const stop = useRef<AbortController>(undefined);
  const way = interfaces.find(({ name }) => name === search.interface) ?? interfaces[0];
  const ids = (models.data?.models ?? [])
    .filter(({ endpoints }) => endpoints.includes(way.endpoint))
    .map(({ id }) => id);
  const chosen = [search.model ?? ids[0], search.beside].filter(id => id !== undefined);
  const toQuestion = (model: string): Question => ({
    model,
    endpoint: way.endpoint,
    instructions: draft.instructions,
    prompt: draft.prompt,
    maxOutputTokens: draft.maxTokens === '' ? undefined : Number(draft.maxTokens),
    tools: readTools(draft.tools),
    image: draft.image,
  });
  const start = async (): Promise<void> => {
    const abort = new AbortController();
    stop.current = abort;
    setRuns(chosen.map(model => ({ model, answer: { text: '' }, isRunning: true })));
    const change = (index: number, values: Partial<Run>): void =>
      setRuns(before => before.map((run, place) => (place === index ? { ...run, ...values } : run)));
    await Promise.all(
      chosen.map(async (model, index) => {
        try {
          await ask(toQuestion(model), key, abort.signal, answer => change(index, { answer }));
        } catch (error) {
          change(index, { error });
        }
        change(index, { isRunning: false });
      }),
    );
    await client.invalidateQueries();
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    try {
      readTools(draft.tools);
    } catch (error) {
      return setFault(`The tools can’t be read: ${error instanceof Error ? error.message : String(error)}`);
    }
    setFault(undefined);
    return void start();
  };
  const isRunning = runs.some(run => run.isRunning);
  const needsKey = viewer.role !== 'holder' && key === '';
  return (
    <>
      <PageTitle name="Playground" />
      <form className="panel form" onSubmit={submit}>
        <Choices ids={ids} chosen={chosen} />
        {viewer.role !== 'holder' && <KeyField value={key} onChange={setKey} />}
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
            <Button variant="default" onClick={() => stop.current?.abort()}>
              Stop
            </Button>
          )}
          {needsKey && <span className="small quiet">A request is paid by an API key: paste one, or make one.</span>}
        </div>
      </form>
      {runs.length > 0 && (
        <div className={runs.length > 1 ? 'columns' : undefined}>
          {runs.map(run => (
            <AnswerPanel key={run.model} run={run} />
          ))}
        </div>
      )}
      {fault === undefined && chosen[0] !== undefined && (
        <AsCode make={() => toQuestion(chosen[0] ?? '')} path={way.path} />
      )}
    </>
  );
}

function AsCode({ make, path }: { readonly make: () => Question; readonly path: string }) {
  const viewer = useViewer();
  const [text, setText] = useState<string>();
  const show = (): void => {
    try {
      const json = JSON.stringify(toBody(make()), null, 2);
      setText(curlOf({ ...viewer, role: 'holder' }, path, { method: 'POST', json }));
    } catch (error) {
      setText(`The tools can’t be read: ${error instanceof Error ? error.message : String(error)}`);
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
        label="Beside it"
        value={search.beside ?? ''}
        data={[{ value: '', label: 'None' }, ...ids.map(id => ({ value: id, label: id }))]}
        onChange={event => change({ beside: event.currentTarget.value || undefined })}
      />
    </div>
  );
}

/** The key that pays. It stays in this page's memory and is forgotten when the page is left. */
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
          description="Kept in this page’s memory only."
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
        <summary className="small">Instructions, tools, picture, limit</summary>
        <div className="form" style={{ marginTop: 12 }}>
          <Textarea
            label="Instructions"
            rows={2}
            value={draft.instructions}
            onChange={event => onChange({ ...draft, instructions: event.currentTarget.value })}
          />
          <Textarea
            label="Tools, as JSON"
            description='{ "name": "weather", "description": "…", "parameters": { … } }, or a list of such'
            rows={3}
            value={draft.tools}
            onChange={event => onChange({ ...draft, tools: event.currentTarget.value })}
          />
          <TextInput
            label="Picture"
            type="file"
            accept="image/*"
            onChange={event => void readImage(event.currentTarget.files?.[0])}
          />
          <TextInput
            label="Output tokens at most"
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

/** The bytes of a file in base64. */
async function readBase64(file: File): Promise<string> {
  const reader = new FileReader();
  const read = new Promise<string>((done, failed) => {
    reader.addEventListener('load', () => done(String(reader.result)));
    reader.addEventListener('error', () => failed(new Error('The file can’t be read.', { cause: reader.error })));
  });
  reader.readAsDataURL(file);
  const url = await read;
  return url.slice(url.indexOf(',') + 1);
}

/** The page that asks models. */
export const Route = createLazyRoute('/playground')({ component: PlaygroundPage });
