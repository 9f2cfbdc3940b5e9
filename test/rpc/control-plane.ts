/** The control services of a gateway, without generations: with a real ledger (without its threads), a real catalogue and a real listener. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, type DescService } from '@bufbuild/protobuf';
import { type Client, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect } from 'vitest';
import { accountService } from '../../src/core/account.ts';
import { accountingService } from '../../src/core/accounting.ts';
import { adminService } from '../../src/core/admin.ts';
import type { ConfigurationAdminOptions } from '../../src/core/configuration-admin.ts';
import { SignInLinks } from '../../src/core/dashboard/sign-in-links.ts';
import { Catalog } from '../../src/core/catalog/catalog.ts';
import { catalogService } from '../../src/core/catalog/catalog-service.ts';
import { credentialService, requireCredential, visibleModels } from '../../src/core/credential.ts';
import { Router } from '../../src/core/routing/router.ts';
import { operatorTokens } from '../../src/core/secret-files.ts';
import { ServiceTokens } from '../../src/core/service-tokens.ts';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../../src/gen/tollgate/v1/accounting_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { CatalogService, ModelSchema } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import { type ErrorDetail, ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { Endpoint, ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import { IdSource, publicRequestId } from '../../src/lib/ids.ts';
import type { Documents } from '../../src/store/documents.ts';
import { BodyStore } from '../../src/core/bodies/body-store.ts';
import { SealedBox } from '../../src/lib/sealed-box.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { createRpcListener } from '../../src/rpc/listener.ts';
import { chooseEngine, plans, type TestLedger } from '../ledger/fixture.ts';

/** A clock that tests move; it starts at noon of a day in the middle of a month. */
export class TestClock {
  #nowMs = Date.UTC(2026, 5, 15, 12);
  now(): number {
    return this.#nowMs;
  }
  advance(ms: number): void {
    this.#nowMs += ms;
  }
}

/** A dollar in nano-dollars. */
export const dollar = 1_000_000_000n;

const models = [
  { id: 'acme/large', name: 'Acme Large', serviceTiers: [ServiceTier.FLEX] },
  { id: 'acme/small:free', name: 'Acme Small' },
].map(model =>
  create(ModelSchema, {
    ...model,
    available: true,
    ownedBy: 'acme',
    endpoints: [Endpoint.CHAT_COMPLETIONS, Endpoint.MESSAGES],
    pricing: {
      inputPicoUsd: 1_250_000n,
      outputPicoUsd: 10_000_000n,
      caching: { readPicoUsd: 125_000n, write5mPicoUsd: 1_562_500n },
      above: [{ inputTokens: 200_000, inputPicoUsd: 2_500_000n, outputPicoUsd: 15_000_000n }],
    },
  }),
);

/** The running services. */
export interface ControlPlane {
  readonly dataDir: string;
  readonly port: number;
  readonly token: string;
  readonly clock: TestClock;
  readonly ledger: TestLedger;
  /** Environment variables with the URL of the ledger's database, for commands; {} on SQLite. */
  readonly environment: Readonly<Record<string, string>>;
  /** Returns a client with a credential; null: without one. */
  client<S extends DescService>(service: S, credential: string | null): Client<S>;
  /** A client with the operator token. */
  readonly admin: Client<typeof AdminService>;
  readonly accounting: Client<typeof AccountingService>;
  /** Checks that every invariant of the ledger holds, then stops the services. */
  close(): Promise<void>;
}

/** Starts the services on a temporary data directory. */
export async function startControlPlane(): Promise<ControlPlane> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-control-'));
  const clock = new TestClock();
  const { open, environment } = await chooseEngine({ dataDir, clock, dailyLimitUnit: 'dollars', plans }, true);
  const ledger = await open();
  const [token = ''] = operatorTokens(dataDir);
  const tokens = new ServiceTokens([{ name: 'operator.token', text: token, scopes: ['operator'] }]);
  const catalog = new Catalog({ models, aliases: new Map([['large', 'acme/large']]) }, () => true);
  const findListedId = (name: string): string => catalog.findListedId(name);
  const findModel = (name: string) => catalog.named(name);
  const reload = () => Promise.resolve({ file: 'tollgate.yaml', providers: 1, models: 2, needsRestart: ['metrics'] });
  const publicUrl = (): string => 'http://gateway.example';
  const webhooks = {
    box: new SealedBox(['secret']),
    allowPrivate: () => false,
    made: () => undefined,
    changed: () => undefined,
  };
  const noDocuments = { put: () => Promise.resolve({ kind: 'stored' }), find: () => Promise.resolve(undefined) };
  const bodies = new BodyStore({
    documents: noDocuments as unknown as Documents,
    box: webhooks.box,
    clock,
    settings: () => ({ keep: 'off', bytesMax: 0, lifetimeMs: 0 }),
    failed: () => undefined,
  });
  const ids = new IdSource(clock);
  const links = new SignInLinks(() => clock.now());
  const internalUrl = (): string => 'http://internal.example';
  const people = { ledger, clock, links, publicUrl, internalUrl, hasProvider: () => false };
  const listener = createRpcListener({
    nextRequestId: () => publicRequestId(ids.next()),
    gate: context => requireCredential(context, { ledger, tokens }),
    services: new InProcessTransport()
      .service(CredentialService, credentialService({ ledger, tokens }))
      .service(
        CatalogService,
        catalogService({ catalog, visible: context => visibleModels(context, { ledger, tokens }) }),
      )
      .service(
        AccountService,
        accountService({ ledger, clock, findListedId, findModel, revoked: () => undefined, webhooks, bodies }),
      )
      .service(AccountingService, accountingService({ ledger, tokens, clock }))
      .service(
        AdminService,
        adminService({
          ledger,
          tokens,
          findListedId,
          findModel,
          reload,
          revoked: () => undefined,
          publicUrl,
          people,
          plans,
          webhooks,
          bodies,
          ...noProviders(clock),
          ...wholeGateway(),
        }),
      ),
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  // One connection for each credential: to open one takes longer than a call.
  const transports = new Map<string | null, Transport>();
  const openTransport = (credential: string | null): Transport =>
    createGrpcTransport({
      baseUrl: `http://127.0.0.1:${port}`,
      interceptors: [
        next => request => {
          if (credential !== null) request.header.set('authorization', `Bearer ${credential}`);
          return next(request);
        },
      ],
    });
  const client = <S extends DescService>(service: S, credential: string | null): Client<S> => {
    const transport = transports.get(credential) ?? openTransport(credential);
    transports.set(credential, transport);
    return createClient(service, transport);
  };
  return {
    dataDir,
    port,
    token,
    clock,
    ledger,
    environment,
    client,
    admin: client(AdminService, token),
    accounting: client(AccountingService, token),
    close: async () => {
      await listener.close(100);
      const violations = await ledger.verify();
      await ledger.close();
      rmSync(dataDir, { recursive: true, force: true });
      expect(violations).toEqual([]);
    },
  };
}

/** Returns the detail of the error with which a call fails. The test fails if the call succeeds, or has no detail. */
export async function catchRefusal(call: Promise<unknown>): Promise<ErrorDetail> {
  const thrown = await call.then(
    () => expect.fail('the call succeeded'),
    (error: unknown) => ConnectError.from(error),
  );
  const [detail] = thrown.findDetails(ErrorDetailSchema);
  return detail ?? expect.fail(`no detail in ${thrown.message}`);
}

/** Returns the options of a control plane without providers. */
function noProviders(clock: TestClock) {
  return {
    router: new Router({ config: { providers: [], routes: new Map() }, clock }),
    providers: () => [],
    testProvider: () => Promise.reject(new Error('there are none')),
  };
}

/** Returns what the operator sees of a gateway without a configuration file. */
function wholeGateway(): ConfigurationAdminOptions {
  const checked = { problems: [], providers: 0, models: 0, changes: [], needsRestart: [] };
  return {
    configuration: {
      describe: () => ({ file: '', readAtMs: 0, settings: '{}', needsRestart: [] }),
      check: () => Promise.resolve(checked),
    },
    readStorage: () =>
      Promise.resolve({
        engine: 'sqlite',
        dataDir: '',
        freeBytes: 0,
        totalBytes: 0,
        problem: undefined,
        parts: [],
        retention: [],
      }),
    verifyLedger: () => Promise.resolve({ violations: [], startedAtMs: 0, durationMs: 0 }),
  };
}
