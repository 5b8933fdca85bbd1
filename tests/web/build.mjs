// Bundles tests for Node: node build.mjs OUT NODE_MODULES TEST...
import { createRequire } from 'node:module';
import path from 'node:path';

const [out, modules, ...tests] = process.argv.slice(2);
const { build } = createRequire(path.join(modules, 'x.js'))('esbuild');
await build({
  entryPoints: tests.map((test) => ({ in: `${test}.ts`, out: test })),
  outdir: out,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node18',
  nodePaths: [modules],
  // Finds parts of itself beside its files.
  alias: { 'playwright-core': path.join(modules, 'playwright-core/index.mjs') },
  external: [path.join(modules, 'playwright-core/*')],
  logLevel: 'warning',
});
