import { createClient } from '@connectrpc/connect';
import { Button, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import { DashboardService } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { readFault, transport } from '../data/rpc.ts';
import { Problem } from '../parts/page.tsx';
import { Brand } from './brand.tsx';
import { basePath } from '../data/base-path.ts';

const sessions = createClient(DashboardService, transport);

interface SignInProps {
  /** True if people can sign in with an identity provider. */
  readonly hasProvider: boolean;
  /** The error of a sign-in link that did not work. */
  readonly failure?: unknown;
  readonly onSignedIn: () => void;
}

/** Returns the tip for an invalid key, because the gateway's tip is about request headers. Undefined for other errors: their tips fit. */
function keyTip(error: unknown): string | undefined {
  if (error === null || readFault(error).code !== 'invalid_api_key') return undefined;
  return 'Paste the whole key. API keys start with sk-tg-, management keys with mk-tg-.';
}

/** The sign-in page, with one field for both kinds of keys. */
export function SignIn({ hasProvider, failure, onSignedIn }: SignInProps) {
  const [credential, setCredential] = useState('');
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => sessions.signIn({ credential: credential.trim() }),
    onSuccess: () => {
      setCredential('');
      onSignedIn();
    },
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  const problem: unknown = error ?? failure;
  return (
    <main className="sign-in">
      <form className="panel form" onSubmit={submit}>
        <Brand />
        <h1>Sign in</h1>
        {problem != null && <Problem error={problem} tip={keyTip(error)} />}
        <TextInput
          label="API key or management key"
          description="An API key shows its own requests. A management key shows its account."
          type="password"
          autoComplete="off"
          spellCheck={false}
          value={credential}
          onChange={event => setCredential(event.currentTarget.value)}
        />
        <Button type="submit" loading={isPending} disabled={credential.trim() === ''}>
          Sign in
        </Button>
        {hasProvider && (
          <Button component="a" href={`${basePath}/login`} variant="default">
            Sign in with your organisation
          </Button>
        )}
        <p className="small quiet">
          The operator signs in with a link: run <code>tollgate dashboard</code> on the gateway’s machine.
        </p>
      </form>
    </main>
  );
}
