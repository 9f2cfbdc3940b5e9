import type { Json, JsonObject } from '../codecs/codec.ts';
import { objectIn, objectsIn, textIn } from '../codecs/json.ts';
import { systemRuntime as runtime } from '../lib/runtime.ts';
import type { ProxySettings } from './connections.ts';
import { fetchOnce, type Question } from './fetch-body.ts';
import type { RevealableKey } from './http-target.ts';

/** A server that is queried for its models and what they can do. */
export interface ServerAddress {
  /** The base URL with the version ("http://127.0.0.1:11434/v1"). */
  readonly baseUrl: string;
  /** The key; absent: the server needs none. */
  readonly key?: RevealableKey;
  readonly proxy: ProxySettings;
  /** The time limit of each answer. */
  readonly timeoutMs: number;
}

/** The kind of server, which decides where it describes a model in more detail than in `GET /models`. */
export type DetailSource = 'llama_cpp' | 'ollama' | 'lm_studio';

/** A server's description of one model. Absent fields: the server does not give them. */
export interface ServerModel {
  /** The model's entry of `GET /models`. */
  readonly listed: JsonObject;
  /** llama.cpp: the model's entry of `models` in the same answer. */
  readonly entry?: JsonObject;
  /** llama.cpp: the answer of `GET /props`, if the server has only one model. */
  readonly props?: JsonObject;
  /** Ollama: the answer of `POST /api/show`. */
  readonly show?: JsonObject;
  /** Ollama: the model's entry of `GET /api/ps`, if it is in memory. LM Studio: the model's entry of `GET /api/v0/models`. */
  readonly state?: JsonObject;
}

type DetailQuery = Pick<Question, 'path' | 'json'>;

/** The most bytes of an answer. No real list of models is that long. */
const bytesMax = 8 * 1024 ** 2;

/**
 * Queries a server for its models. Throws `UpstreamFailure` if it does not list them, and `SyntaxError` if its answer is not JSON. Redirects are not followed.
 */
export async function listServerModels(
  server: ServerAddress,
  source: DetailSource | undefined,
): Promise<ServerModel[]> {
  const list = await ask(server, server.baseUrl, { path: '/models' });
  const models = objectsIn(list?.['data']).map(listed => ({ listed }));
  switch (source) {
    case 'llama_cpp':
      return withProps(server, models, objectsIn(list?.['models']));
    case 'ollama':
      return withShown(server, models);
    case 'lm_studio':
      return withStates(models, objectsIn((await addDetails(server, { path: '/api/v0/models' }))?.['data']), 'id');
    case undefined:
      return models;
  }
}

/** Adds `props`, if the server has only one model. `GET /props` describes the loaded model; a server with several models would have to load one for it. */
async function withProps(
  server: ServerAddress,
  models: readonly ServerModel[],
  entries: readonly JsonObject[],
): Promise<ServerModel[]> {
  const props = models.length === 1 ? await addDetails(server, { path: '/props' }) : undefined;
  return models.map(model => {
    const id = textIn(model.listed['id']);
    const entry = entries.find(each => textIn(each['model']) === id || textIn(each['name']) === id);
    return { ...model, ...(entry === undefined ? {} : { entry }), ...(props === undefined ? {} : { props }) };
  });
}

/** Adds `show` to each model. One query after the other, because for each the server may read a file. */
async function withShown(server: ServerAddress, models: readonly ServerModel[]): Promise<ServerModel[]> {
  const shown: ServerModel[] = [];
  for (const model of models) {
    const show = await addDetails(server, { path: '/api/show', json: { model: textIn(model.listed['id']) } });
    shown.push(show === undefined ? model : { ...model, show });
  }
  return withStates(shown, objectsIn((await addDetails(server, { path: '/api/ps' }))?.['models']), 'model');
}

function withStates(models: readonly ServerModel[], states: readonly JsonObject[], idKey: string): ServerModel[] {
  return models.map(model => {
    const state = states.find(each => textIn(each[idKey]) === textIn(model.listed['id']));
    return state === undefined ? model : { ...model, state };
  });
}

/** Sends a query to the root of the server. Returns undefined if it does not answer it. */
async function addDetails(server: ServerAddress, question: DetailQuery): Promise<JsonObject | undefined> {
  try {
    return await ask(server, server.baseUrl.replace(/\/v1$/, ''), question);
  } catch {
    // Another server with the same interface, or an older one. If the server is gone, the next query of its list notices that.
    return undefined;
  }
}

async function ask({ key, proxy, timeoutMs: ms }: ServerAddress, baseUrl: string, question: DetailQuery) {
  const timeouts = { connectMs: ms, firstEventMs: ms, idleMs: ms, totalMs: ms };
  const keys = key === undefined ? [] : [key];
  const what = { accept: 'application/json', bytesMax, ...question };
  const body = await fetchOnce({ baseUrl, keys, timeouts, proxy, runtime }, what);
  return objectIn(JSON.parse(body.toString('utf8')) as Json);
}
