// Bundles the page: node build.mjs OUT [NODE_MODULES [PAGE_FILES.cc]]
//
// OUT gets the files that the coordinator serves, for --ui-dir; PAGE_FILES.cc the
// same as a source file behind page_files.h. NODE_MODULES is where the packages
// are, if not beside this file.
import { createHash } from 'node:crypto';
import { readFile, mkdir, writeFile, copyFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const kMostBytes = 1_000_000;

const here = path.dirname(fileURLToPath(import.meta.url));
const [out, modules = path.join(here, 'node_modules'), source] =
  process.argv.slice(2);
if (!out) {
  console.error('usage: node build.mjs OUT [NODE_MODULES [PAGE_FILES.cc]]');
  process.exit(2);
}
const packages = path.resolve(modules);
const esbuild = createRequire(path.join(packages, 'x.js'))('esbuild');

await mkdir(out, { recursive: true });
await esbuild.build({
  entryPoints: [path.join(here, 'src/main.ts')],
  outfile: path.join(out, 'page.js'),
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome111', 'firefox113', 'safari16.4'],
  legalComments: 'none', // licences.txt has them
  define: { 'process.env.NODE_ENV': '"production"' },
  nodePaths: [packages],
  logLevel: 'warning',
});
await esbuild.build({
  entryPoints: [path.join(here, 'page.css')],
  outfile: path.join(out, 'page.css'),
  minify: true,
  logLevel: 'warning',
});
for (const name of ['index.html', 'icon.svg']) {
  await copyFile(path.join(here, name), path.join(out, name));
}

// The licences of what page.js holds.
const licences = [];
for (const [name, files] of [
  ['echarts', ['NOTICE', 'LICENSE']],
  ['zrender', ['LICENSE']],
  ['tslib', ['LICENSE.txt']],
]) {
  const folder = path.join(packages, name);
  const about = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  licences.push(`This page contains ${name} ${about.version} (${about.license}).\n`);
  for (const file of files) {
    licences.push((await readFile(path.join(folder, file), 'utf8')).trim() + '\n');
  }
}
await writeFile(path.join(out, 'licences.txt'), licences.join('\n'));

// What is served, with its type.
const files = [
  ['index.html', 'text/html'],
  ['page.js', 'text/javascript'],
  ['page.css', 'text/css'],
  ['icon.svg', 'image/svg+xml'],
  ['licences.txt', 'text/plain'],
];

let total = 0;
let literals = '';
let table = '';
for (const [index, [name, type]] of files.entries()) {
  const content = await readFile(path.join(out, name));
  total += content.length;
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16);
  literals += `constexpr char kFile${index}[] =\n${literal(content)};\n`;
  table +=
    `    {"${name}", "${type}; charset=utf-8",\n` +
    `     {kFile${index}, sizeof(kFile${index}) - 1}, "${hash}"},\n`;
}
if (total > kMostBytes) {
  console.error(`the page has ${total} bytes; up to ${kMostBytes} are accepted`);
  process.exit(1);
}
if (source) {
  await writeFile(
    source,
    `// Written by build.mjs.
#include "coordinator/web/page_files.h"

namespace ucudnn {
namespace {

${literals}
constexpr PageFile kFiles[] = {
${table}};

}  // namespace

std::span<const PageFile> BuiltPage() { return kFiles; }

}  // namespace ucudnn
`,
  );
}

// Bytes as C++ string literals. Octal escapes have three digits, so what follows
// cannot be taken for a part of them; '?' is escaped because of trigraphs.
function literal(content) {
  const lines = [];
  for (let at = 0; at < content.length; at += 4096) {
    let text = '';
    for (const byte of content.subarray(at, at + 4096)) {
      const plain = byte >= 0x20 && byte < 0x7f && !'"\\?'.includes(String.fromCharCode(byte));
      text += plain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
    }
    lines.push(`    "${text}"`);
  }
  return lines.join('\n');
}
