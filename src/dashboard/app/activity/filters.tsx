import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import type { AccountSource } from '../data/source.ts';
import { periodText } from '../data/time.ts';
import { may, useViewer } from '../data/viewer.ts';
import { type ActivitySearch, groupedBy, groupings, measures, periods, readActivitySearch } from './search.ts';

const route = getRouteApi('/activity');
const choices = (
  table: Readonly<Record<string, { readonly name: string } | string>>,
): { value: string; label: string }[] =>
  Object.entries(table).map(([value, entry]) => ({ value, label: typeof entry === 'string' ? entry : entry.name }));

/** Shows the filters of the page, which are stored in its URL. On a phone, a button shows and hides them. */
export function Filters({ search }: { readonly search: ActivitySearch }) {
  const isPhone = useMediaQuery('(width < 640px)', false, { getInitialValueInEffect: false });
  const [isOpen, setOpen] = useState(false);
  const isShown = !isPhone || isOpen;
  return (
    <>
      {isPhone && (
        <p>
          <Button size="xs" variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Hide filters' : 'Filters'}
          </Button>
        </p>
      )}
      {isShown && <Fields search={search} />}
      <Chips search={search} />
    </>
  );
}

function Fields({ search }: { readonly search: ActivitySearch }) {
  const navigate = route.useNavigate();
  const change = (values: Record<string, unknown>): void =>
    void navigate({
      search: readActivitySearch({ ...search, ...values }),
      replace: true,
    });
  const { account } = useViewer();
  const models = useCall(CatalogService.method.listModels, {});
  const ids = (models.data?.models ?? []).map(({ id }) => id);
  const known = search.model === undefined || ids.includes(search.model) ? ids : [search.model, ...ids];
  return (
    <div className="filters">
      <SpanFields search={search} onChange={change} />
      <NativeSelect
        className="field"
        size="xs"
        label="Model"
        value={search.model ?? ''}
        data={[{ value: '', label: 'Any' }, ...known.map(id => ({ value: id, label: id }))]}
        onChange={event => change({ model: event.currentTarget.value })}
      />
      {account !== undefined && <AccountFields source={account} search={search} onChange={change} />}
      <TextField label="Provider" value={search.provider ?? ''} onChange={provider => change({ provider })} />
      <TextField
        label="Endpoint"
        placeholder="/v1/messages"
        value={search.endpoint ?? ''}
        onChange={endpoint => change({ endpoint })}
      />
      <TextField label="End user" value={search.end_user ?? ''} onChange={user => change({ end_user: user })} />
      <TextField label="Tag" placeholder="name:value" value={search.tag ?? ''} onChange={tag => change({ tag })} />
      <NativeSelect
        className="field"
        size="xs"
        label="Show"
        value={search.show ?? 'spend'}
        data={choices(measures)}
        onChange={event => change({ show: event.currentTarget.value })}
      />
      <NativeSelect
        className="field"
        size="xs"
        label="Group by"
        value={groupedBy(search)}
        data={choices(groupings)}
        onChange={event => change({ by: event.currentTarget.value })}
      />
    </div>
  );
}

interface SpanFieldsProps {
  readonly search: ActivitySearch;
  readonly onChange: (values: Record<string, unknown>) => void;
}

/** Lets the viewer choose the period: one of the list, or a first and a last day. */
function SpanFields({ search, onChange }: SpanFieldsProps) {
  return (
    <>
      <NativeSelect
        className="field"
        size="xs"
        label="Period"
        value={search.from === undefined ? (search.period ?? '24h') : 'days'}
        data={[...choices(periods), ...(search.from === undefined ? [] : [{ value: 'days', label: 'Chosen days' }])]}
        onChange={event =>
          onChange({ period: event.currentTarget.value, from: undefined, to: undefined, hour: undefined })
        }
      />
      {(['from', 'to'] as const).map(name => (
        <TextInput
          key={name}
          className="field"
          size="xs"
          label={name === 'from' ? 'From (UTC day)' : 'To (UTC day)'}
          type="date"
          value={search[name] ?? ''}
          onChange={event => onChange({ [name]: event.currentTarget.value, period: undefined, hour: undefined })}
        />
      ))}
    </>
  );
}

interface AccountFieldsProps {
  readonly source: AccountSource;
  readonly search: ActivitySearch;
  readonly onChange: (values: Record<string, unknown>) => void;
}

/** Shows the filters by key and by group, with their names, if the viewer may list keys. */
function AccountFields({ source, search, onChange }: AccountFieldsProps) {
  const viewer = useViewer();
  const keys = useQuery({
    queryKey: ['keys', source.name],
    queryFn: ({ signal }) => source.listKeys(signal),
    enabled: may(viewer, 'keys:read'),
  });
  const groups = useQuery({
    queryKey: ['groups', source.name],
    queryFn: ({ signal }) => source.listGroups(signal),
    enabled: may(viewer, 'groups:read'),
  });
  return (
    <>
      <IdField
        label="Key"
        value={search.key}
        options={(keys.data ?? []).map(({ apiKeyId: id, label }) => ({ id, name: label }))}
        onChange={key => onChange({ key })}
      />
      <IdField
        label="Group"
        value={search.group}
        options={(groups.data ?? []).map(({ groupId: id, name }) => ({ id, name }))}
        onChange={group => onChange({ group })}
      />
    </>
  );
}

interface IdFieldProps {
  readonly label: string;
  readonly value: number | undefined;
  readonly options: readonly { readonly id: bigint; readonly name: string }[];
  readonly onChange: (id: string) => void;
}

function IdField({ label, value, options, onChange }: IdFieldProps) {
  const chosen = value === undefined ? '' : `${value}`;
  const known = options.map(({ id, name }) => ({ value: `${id}`, label: name === '' ? `${id}` : `${name} (${id})` }));
  // The chosen id comes from the address, and its object may have been deleted.
  const others = chosen === '' || known.some(each => each.value === chosen) ? [] : [{ value: chosen, label: chosen }];
  return (
    <NativeSelect
      className="field"
      size="xs"
      label={label}
      value={chosen}
      data={[{ value: '', label: 'Any' }, ...others, ...known]}
      onChange={event => onChange(event.currentTarget.value)}
    />
  );
}

interface TextFieldProps {
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A text field that takes effect when the input is finished. If the value changes elsewhere, for example in the address, it replaces the text. */
function TextField({ label, placeholder = 'Any', value, onChange }: TextFieldProps) {
  return (
    <TextInput
      key={value}
      className="field"
      size="xs"
      label={label}
      placeholder={placeholder}
      defaultValue={value}
      onKeyDown={event => event.key === 'Enter' && onChange(event.currentTarget.value)}
      onBlur={event => event.currentTarget.value !== value && onChange(event.currentTarget.value)}
    />
  );
}

/** Shows an hour from the page's address in the viewer's time zone. */
function hourText(hour = ''): string {
  return periodText(Date.parse(`${hour}:00:00Z`), true);
}

/** Shows the active filters, each with a button that removes it. */
function Chips({ search }: { readonly search: ActivitySearch }) {
  const navigate = route.useNavigate();
  const names = ['from', 'to', 'hour', 'model', 'key', 'group', 'provider', 'endpoint', 'end_user', 'tag'] as const;
  const active = names.filter(name => search[name] !== undefined);
  if (active.length === 0) return null;
  return (
    <div className="chips">
      {active.map(name => (
        <span className="chip" key={name}>
          <span>
            {name.replace('_', ' ')}: {name === 'hour' ? hourText(search.hour) : search[name]}
          </span>
          <button
            type="button"
            aria-label={`Remove the filter ${name.replace('_', ' ')}`}
            onClick={() => void navigate({ search: before => ({ ...before, [name]: undefined }) })}
          >
            ×
          </button>
        </span>
      ))}
    </div>
  );
}
