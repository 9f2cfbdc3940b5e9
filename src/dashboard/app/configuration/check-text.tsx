import { createClient } from '@connectrpc/connect';
import { Button, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import {
  AdminService,
  type CheckConfigurationResponse,
  type ConfigurationChange,
  type ConfigurationProblem,
} from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { Problem } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);

/** Checks a configuration that could replace the one in use, and shows what it would change. `file`: the path of the configuration file; '' if there is none. */
export function CheckText({ file }: { readonly file: string }) {
  const [text, setText] = useState('');
  const check = useMutation({ mutationFn: () => admin.checkConfiguration({ text }) });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    check.mutate();
  };
  return (
    <section className="panel" aria-label="Check a new configuration">
      <h2>Check a new configuration</h2>
      <form className="form" onSubmit={submit}>
        <Textarea
          label="Text of the file"
          description={`Nothing changes here. To use it, write it to ${file === '' ? 'tollgate.yaml' : file} and reload the file.`}
          rows={8}
          spellCheck={false}
          classNames={{ input: 'code-input' }}
          value={text}
          onChange={event => {
            setText(event.currentTarget.value);
            check.reset();
          }}
        />
        <div>
          <Button size="xs" type="submit" variant="default" loading={check.isPending} disabled={text.trim() === ''}>
            Check and compare
          </Button>
        </div>
      </form>
      {check.error !== null && <Problem error={check.error} />}
      {check.data !== undefined && <Checked answer={check.data} />}
    </section>
  );
}

function Checked({ answer }: { readonly answer: CheckConfigurationResponse }) {
  const { problems, changes, changeCount, needsRestart, providers, models } = answer;
  if (problems.length > 0) {
    return (
      <div role="alert" className="problem checked">
        <p>{problems.length === 1 ? 'One mistake' : `${problems.length} mistakes`}: the gateway would refuse it.</p>
        <ul className="plain-list">
          {problems.map(problem => (
            <Mistake key={`${problem.line} ${problem.path} ${problem.message}`} problem={problem} />
          ))}
        </ul>
      </div>
    );
  }
  const differs = changeCount === 0 ? 'Nothing would change.' : `${changeCount} settings would change.`;
  return (
    <div className="checked">
      <p role="status">
        <strong className="settled">The text is valid:</strong> {providers} providers, {models} models.{' '}
        {changeCount === 1 ? 'One setting would change.' : differs}
        {needsRestart.length > 0 && ` At the next start only: ${needsRestart.join(', ')}.`}
      </p>
      {changes.length > 0 && <Changes changes={changes} />}
      {changeCount > changes.length && <p className="quiet">And {changeCount - changes.length} more.</p>}
    </div>
  );
}

function Mistake({ problem }: { readonly problem: ConfigurationProblem }) {
  const { line, path, message } = problem;
  return (
    <li>
      {line > 0 && <>line {line}: </>}
      {path !== '' && <code>{path}</code>} {message}
    </li>
  );
}

function Changes({ changes }: { readonly changes: readonly ConfigurationChange[] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table: Differences">
      <table className="plain stacked differences">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">In use</th>
            <th scope="col">In this text</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after }) => (
            <tr key={`${path} ${after ?? ''}`}>
              <th scope="row">
                <code>{path}</code>
              </th>
              <td data-name="In use">
                <Value json={before} />
              </td>
              <td data-name="In this text">
                <Value json={after} other={before} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Shows a value; `other`: the value that it replaces. */
function Value({ json, other }: { readonly json: string | undefined; readonly other?: string | undefined }) {
  if (json === undefined) return <span className="quiet">none</span>;
  return (
    <>
      <code>{json}</code>
      {json === other && <span className="quiet small"> another secret</span>}
    </>
  );
}
