import { Button, NativeSelect, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import { type Viewer, ViewerContext } from '../data/viewer.ts';
import { Brand } from './brand.tsx';
import { ConnectionBanner, Footer } from './footer.tsx';
import { LiveProvider } from './live-context.tsx';
import { pagesFor } from './pages.ts';

interface ShellProps {
  readonly viewer: Viewer;
  readonly onSignOut: () => void;
}

/** The frame of every page: the navigation, who is signed in, and how current the numbers are. */
export function Shell({ viewer, onSignOut }: ShellProps) {
  return (
    <ViewerContext value={viewer}>
      <LiveProvider viewer={viewer}>
        <div className="shell">
          <header className="side">
            <Brand />
            <Navigation viewer={viewer} />
            <div className="who">
              {viewer.role === 'operator' && <AccountChoice accountId={viewer.accountId} />}
              <span className="small quiet who-name" title={viewer.subject}>
                {viewer.subject} ({viewer.role === 'holder' ? 'key holder' : viewer.role})
              </span>
              <span className="actions">
                <SchemeButton />
                <Button size="compact-xs" variant="default" onClick={onSignOut}>
                  Sign out
                </Button>
              </span>
            </div>
          </header>
          <main className="page">
            <ConnectionBanner />
            {!viewer.isInternal && viewer.role !== 'holder' && (
              <p className="small quiet">
                The operator’s pages are on the internal listener: <code>{viewer.internalUrl}/dashboard/</code>
              </p>
            )}
            <Outlet />
          </main>
          <Footer />
        </div>
      </LiveProvider>
    </ViewerContext>
  );
}

/** Shows the links to the pages. On a phone, where they are a row that scrolls, it scrolls to the link of the current page. */
function Navigation({ viewer }: { readonly viewer: Viewer }) {
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  useEffect(() => {
    const row = nav.current;
    const current = row?.querySelector<HTMLElement>('[aria-current=page]');
    if (row != null && current != null)
      row.scrollLeft = current.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
  }, [pathname]);
  return (
    <nav ref={nav} className="nav" aria-label="Pages">
      {pagesFor(viewer).map(({ to, name }) => (
        <Link key={to} to={to}>
          {name}
        </Link>
      ))}
    </nav>
  );
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const other = useComputedColorScheme('light') === 'dark' ? 'light' : 'dark';
  return (
    <Button size="compact-xs" variant="default" onClick={() => setColorScheme(other)}>
      {other === 'dark' ? 'Dark' : 'Light'}
    </Button>
  );
}

/** The field in which the operator chooses the account to look at; the account is part of the address. */
function AccountChoice({ accountId }: { readonly accountId: bigint }) {
  const { data } = useQuery(AdminService.method.listAccounts, {});
  const navigate = useNavigate();
  const choices = (data?.accounts ?? []).map(({ accountId: id, name }) => ({
    value: `${id}`,
    label: `${name} (${id})`,
  }));
  return (
    <NativeSelect
      className="who-account"
      size="xs"
      label="Account"
      value={`${accountId}`}
      data={choices.length === 0 ? [`${accountId}`] : choices}
      onChange={event =>
        void navigate({ to: '.', search: before => ({ ...before, account: Number(event.currentTarget.value) }) })
      }
    />
  );
}
