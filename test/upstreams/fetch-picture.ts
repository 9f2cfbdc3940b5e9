/** Fetches a picture as a process that trusts the test's certificate: `fetch-picture.ts URL BYTES_MAX`, and says what came of it. */
import process from 'node:process';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { systemRuntime } from '../../src/lib/runtime.ts';
import { PictureFetcher } from '../../src/upstreams/picture-fetcher.ts';

const [, , url = '', bytesMax = ''] = process.argv;
const fetcher = new PictureFetcher({
  bytesMax: Number(bytesMax),
  runtime: systemRuntime,
  isAllowed: address => address === '127.0.0.1',
});
try {
  const bytes = await fetcher.fetch(url, new AbortController().signal);
  process.stdout.write(`fetched ${bytes.toString('latin1')}`);
} catch (thrown) {
  process.stdout.write(thrown instanceof UpstreamFailure ? `refused ${thrown.kind}` : `defect ${String(thrown)}`);
}
