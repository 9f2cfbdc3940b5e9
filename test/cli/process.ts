/** The command line as a process. */
import { runCommandLine } from '../../src/cli/program.ts';
import { makePorts } from './ports.ts';

process.exitCode = await runCommandLine(process.argv.slice(2), {
  ...makePorts(process.env),
  streams: { out: text => void process.stdout.write(text), err: text => void process.stderr.write(text) },
});
