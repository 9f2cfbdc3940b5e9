/**
 * Fetches an image and prints the result: `fetch-image.ts URL BYTES_MAX`. It runs as a process that trusts the test's certificate.
 */
import process from 'node:process';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { systemRuntime } from '../../src/lib/runtime.ts';
import { ImageFetcher } from '../../src/upstreams/image-fetcher.ts';

const [, , url = '', bytesMax = ''] = process.argv;
const fetcher = new ImageFetcher({
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
