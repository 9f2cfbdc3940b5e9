#!/usr/bin/env -S node
// The command line. This file must run under every Node.js, even those that know neither ES modules nor `node:` imports: it uses only globals and old
// syntax. Everything else is loaded by `load.js`, because an old Node.js fails on modules that it can't link before a check in them could run.
/* oxlint-disable no-var -- old syntax */
var nodeVersion = process.versions.node;
if (Number(nodeVersion.split('.')[0]) < 22) {
  process.stderr.write(
    'Tollgate needs Node.js 22 or newer, and this is ' +
      nodeVersion +
      ': install a newer one (https://nodejs.org), start it with npm in a checkout (npm ci, then npm start), or run the container image.\n',
  );
  process.exit(1);
} else {
  void import('./load.js');
}
