// The page in a browser, on a coordinator with measurements, plans and jobs.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

import { bytes, operation } from '../../coordinator/web/src/format.js';
import type { Plan } from '../../coordinator/web/src/types.js';
import { launch, rows, watch } from './browser.js';
import { Cluster, kTinyNetwork, until } from './cluster.js';

const kAlexNet = 'networks/alexnet_torchvision.csv';

// An agent's name that would be markup if the page took it for any.
const kHostile = 'x"><img src=x onerror=alert(1)>';

let cluster: Cluster;
let browser: Browser;
let page: Page;
let complaints: string[];

before(async () => {
  browser = await launch();
  cluster = await Cluster.create();
  await cluster.startCoordinator();
  cluster.replay('gpu-a', 'h200/alexnet_b256_pow2.csv', kAlexNet, 132);
  cluster.replay(kHostile, 'h200/alexnet_b256_pow2_sm64.csv', kAlexNet, 64);
  await until(async () => (await devices('idle')) === 2, () => cluster.log());
  await cluster.ucudnn('networks', 'put', 'alexnet', `${cluster.data}/${kAlexNet}`);
  await cluster.ucudnn(
    ...['plan', '--network', 'alexnet', '--batch', '256', '--workspace-limit', '64MiB'],
    ...['--device-kind', kind(132)],
  );
  await cluster.putNetwork('tiny', kTinyNetwork);
  cluster.startAgent();
  await until(async () => (await devices('idle')) === 4, () => cluster.log());
  await cluster.train('tiny', 150);
});

after(async () => {
  await browser?.close();
  await cluster?.close();
});

beforeEach(async () => {
  await use({});
});

afterEach(() => {
  assert.deepEqual(complaints, []);
});

function kind(units: number): string {
  return `Recorded device/${units}u/1GiB/recorded-1.0`;
}

// A page of its own, with these settings of the browser.
async function use(options: BrowserContextOptions): Promise<void> {
  await page?.context().close();
  page = await (await browser.newContext({ reducedMotion: 'reduce', ...options })).newPage();
  complaints = watch(page);
}

async function devices(state: string): Promise<number> {
  const answer = await cluster.get<{ devices: { state: string }[] }>('v1/devices');
  return answer.devices.filter((device) => device.state === state).length;
}

async function open(hash: string): Promise<void> {
  await page.goto(cluster.url + hash);
  await page.locator('.view:not(.loading)').waitFor();
}

// What the chart of this section says to those who do not see it.
function chart(section: string): Promise<string> {
  const found = page
    .locator('section', { has: page.getByRole('heading', { name: section, exact: true }) })
    .getByRole('img')
    .first();
  return found.getAttribute('aria-label').then((label) => label ?? '');
}

test('the overview counts what there is and links to it', async () => {
  await open('');
  const tiles = page.getByRole('navigation', { name: 'Figures' });
  assert.match(await tiles.innerText(), /Devices\s+4 of 4\s+online; .* 0 cordoned/);
  assert.match(await tiles.innerText(), /Plans\s+2\s+of 2 networks/);
  await tiles.getByRole('link', { name: /Devices/ }).click();
  await page.getByRole('heading', { name: 'Devices', level: 1 }).waitFor();
  assert.match(page.url(), /#\/devices$/);
});

test('an empty coordinator says what to do first', async () => {
  const empty = await Cluster.create();
  try {
    await empty.startCoordinator();
    await page.goto(empty.url);
    await page.getByRole('heading', { name: 'First steps' }).waitFor();
    await page.getByText(`ucudnn-agent --coordinator ${empty.address}`).waitFor();
    for (const [name, next] of [
      ['devices', 'ucudnn-agent'],
      ['campaigns', 'ucudnn plan'],
      ['plans', 'ucudnn networks put'],
      ['jobs', 'ucudnn-train'],
    ] as const) {
      await page.goto(`${empty.url}#/${name}`);
      await page.locator('pre', { hasText: next }).first().waitFor();
    }
  } finally {
    await empty.close();
  }
});

test('devices are counted by kind, sorted, filtered and linked to', async () => {
  await open('#/devices');
  const kinds = await rows(page, 'Kinds of devices');
  assert.equal(kinds.length, 3);
  assert.match(kinds.find((row) => row.includes('132 units')) ?? '', /1\s+1\s+0\s+0\s+0/);
  assert.equal((await rows(page, 'Devices')).length, 4);
  await page.getByRole('searchbox', { name: 'Filter devices' }).fill('cpu idle');
  await page.getByText('2 of 4 devices').waitFor();
  const table = page.getByRole('region', { name: 'Devices', exact: true });
  await table.getByRole('button', { name: 'Device' }).click();
  assert.match((await rows(page, 'Devices'))[0] ?? '', /cpu-node-1/);
  // The address has it all: whoever gets it sees the same.
  await page.reload();
  await page.getByText('2 of 4 devices').waitFor();
  assert.match((await rows(page, 'Devices'))[0] ?? '', /cpu-node-1/);
});

test('nodes, networks and history are listed', async () => {
  await open('#/networks');
  assert.match((await rows(page, 'Networks')).join('\n'), /alexnet\s+5\s/);
  await cluster.ucudnn('cordon', 'gpu-a', '--reason', 'new fans');
  try {
    await open('#/nodes');
    const held = (await rows(page, 'Nodes')).find((row) => row.includes('gpu-a'));
    assert.match(held ?? '', /cordoned\s+1\s.*new fans/s);
    await open('#/history');
    assert.match((await rows(page, 'History'))[0] ?? '', /cordon node gpu-a\s+new fans/);
  } finally {
    await cluster.ucudnn('resume', 'gpu-a');
  }
});

test('an address with a password in it is no outage', async () => {
  await page.goto(cluster.url.replace('://', '://x:token@'));
  await page.locator('.view:not(.loading)').waitFor();
  assert.equal(await page.getByText('No news from the coordinator').isVisible(), false);
});

test('names from users stay texts', async () => {
  await open('#/devices');
  await page.getByText(`recorded-${kHostile}`).waitFor();
  assert.equal(await page.locator('img').count(), 0);
});

test('the policy stops foreign scripts and markup from strings', async () => {
  await open('');
  const result = await page.evaluate(() => {
    const script = document.createElement('script');
    try {
      script.textContent = 'window.ran = true';
      document.body.append(script);
    } catch {
      // The browser refuses the text already.
    }
    let markup = 'made';
    try {
      document.createElement('p').innerHTML = '<b>x</b>';
    } catch (error) {
      markup = String(error);
    }
    return { ran: 'ran' in window, markup };
  });
  assert.equal(result.ran, false);
  assert.match(result.markup, /TypeError/);
  complaints.length = 0; // the browser reports what it stopped
});

test('a plan shows its ranks, kernels, fronts and arena', async () => {
  await open('#/plans/1');
  assert.match(await page.locator('.facts').innerText(), /alexnet, revision 1/);
  assert.match(await page.locator('.facts').innerText(), /at most 64 MiB a kernel/);
  assert.match(await page.locator('.facts').innerText(), /predicted \(convolutions only\)/i);
  await page.getByText('Predicted times and shares count convolutions only').waitFor();
  assert.match(await chart('Ranks'), /rank 0, .*132u, 256 images: planned .* ms, undivided .* ms/);
  assert.match(await chart('Kernels'), /conv2 backward filter: planned/);
  const kernels = await rows(page, 'Kernels');
  assert.equal(kernels.length, 14);
  assert.match(kernels.find((row) => row.startsWith('conv2 forward')) ?? '', /8 × 32, \w+/);
  assert.match(await chart('Workspace arena'), /14 kernels in .* in an arena of .* MiB/);
  await page.getByRole('button', { name: 'conv3 forward' }).click();
  await page.getByRole('heading', { name: 'conv3 forward' }).waitFor();
  await page.getByText(/The next faster one takes|A larger limit would bring nothing/).waitFor();
  assert.match(await chart('Front of a kernel'), /within the limit of 64 MiB takes/);
  assert.match(page.url(), /kernel=conv3\+forward/);
  await page.reload();
  await page.getByRole('heading', { name: 'conv3 forward' }).waitFor();
});

test('a plan is found from the list', async () => {
  await open('#/plans');
  assert.equal((await rows(page, 'Plans')).length, 2);
  await page.getByRole('searchbox').fill('alexnet');
  await page.getByRole('link', { name: 'Plan 1' }).click();
  await page.getByRole('heading', { name: 'Plan 1', level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'H1');
  await page.goBack();
  await page.getByText('1 of 2 plans').waitFor();
});

test('a plan of a step has the name of the step', async () => {
  const file = `${cluster.folder}/step.json`;
  const steps = [1, 16].map((batch) => ({ batch, time_us: 10 * batch }));
  await writeFile(file, JSON.stringify({ kinds: [{ device_kind: 'K', steps }] }));
  await cluster.ucudnn('steps', 'put', 'resnet', file);
  await cluster.ucudnn('plan', '--step', 'resnet', '--batch', '8', '--device-kind', 'K');
  await open('#/plans');
  await page.getByRole('searchbox').fill('step resnet');
  await page.getByText('1 of 3 plans').waitFor();
  assert.match((await rows(page, 'Plans'))[0] ?? '', /step resnet\s*8 images\s/);
  await page.getByRole('link', { name: 'Plan 3' }).click();
  await page.getByRole('heading', { name: 'Plan 3', level: 1 }).waitFor();
  await page.getByText('resnet, revision 1').waitFor();
});

test('jobs compare measured with predicted times', async () => {
  await open('#/jobs');
  assert.match((await rows(page, 'Jobs'))[0] ?? '', /tiny[\s\S]*finished/);
  assert.match(await chart('Measured against predicted'), /of 2 ranks within 3 %/);
  await page.getByRole('link', { name: 'tiny' }).click();
  await page.getByRole('heading', { name: 'Step times' }).waitFor();
  assert.match(await chart('Step times'), /median .*, predicted \(whole step\)/);
  const ranks = await rows(page, 'Ranks');
  assert.equal(ranks.length, 2);
  assert.match(ranks[1] ?? '', /150/);
  assert.match((await rows(page, 'Revisions'))[0] ?? '', /Plan\s2/);
  await page.getByRole('combobox', { name: 'Rank' }).selectOption('1');
  await page.waitForURL(/rank=1/);
});

test('a campaign shows its progress, and the device what it measures', async () => {
  const resnet = 'networks/resnet18.csv';
  await cluster.ucudnn('networks', 'put', 'resnet18', `${cluster.data}/${resnet}`);
  // The agent sleeps as long as the GPU ran, many times over.
  cluster.replay(
    ...(['slow', 'h200/resnet18_b128_pow2.csv.gz', resnet, 16] as const),
    ...['--real-time', '--slower', '100'],
  );
  await until(async () => (await devices('idle')) === 5, () => cluster.log());
  const plan = ['--network', 'resnet18', '--batch', '128', '--workspace-limit', '64MiB'];
  const asked = cluster
    .ucudnn('plan', ...plan, '--device-kind', kind(16))
    .then(() => null, () => null);
  await open('#/campaigns');
  const row = page.getByRole('region', { name: 'Campaigns' }).locator('tr', { hasText: 'resnet18' });
  await row.locator('.state', { hasText: 'running' }).waitFor();
  await row.getByText(/about .* left/).waitFor();
  assert.match(await row.innerText(), /\d+ of \d+/);
  await page.goto(`${cluster.url}#/devices?state=measuring`);
  await page.getByText(/(forward|backward \w+) \d+→\d+, .*images?/).first().waitFor();
  await cluster.stop('slow');
  await page.goto(`${cluster.url}#/campaigns`);
  await row.getByText('waits for a device of kind Recorded device 16u').waitFor();
  await page.goto(`${cluster.url}#/devices?state=lost`);
  await page.getByText('1 of 5 devices').waitFor();
  void asked; // ends with the coordinator
});

test('kernels that may run at once have segments', async () => {
  const recorded = await readFile(`${cluster.data}/h200/resnet18_b128_pow2.csv.gz`);
  const csv = gunzipSync(recorded).toString().replaceAll('\nNVIDIA H200,', `\n${kind(99)},`);
  await cluster.importProfile(csv, 'networks/resnet18.csv');
  await cluster.ucudnn('networks', 'put', 'branches', `${cluster.data}/onnx/resnet18.onnx`);
  const plan = JSON.parse(
    await cluster.ucudnn(
      ...['plan', '--network', 'branches', '--batch', '128', '--device-kind', kind(99)],
      ...['--total-workspace', '64MiB', '--concurrent', '-o', 'json'],
    ),
  ) as Plan;
  await open(`#/plans/${plan.id}`);
  assert.match(await page.locator('.facts').innerText(), /64 MiB divided among what may run at once/);
  const shown = await rows(page, 'Kernels');
  const kernels = plan.ranks[0]?.workspace?.kernels ?? [];
  assert.equal(shown.length, kernels.length);
  const behind = kernels.filter((kernel) => (kernel.offset_bytes ?? 0) > 0);
  assert.ok(behind.length > 0);
  for (const kernel of kernels) {
    const row = shown.find((text) => text.startsWith(`${kernel.layer} ${operation(kernel.op)}`));
    const segment = `${bytes(kernel.workspace_bytes)} from ${bytes(kernel.offset_bytes ?? 0)}`;
    assert.ok(row?.includes(segment), `${row} has no ${segment}`);
  }
  await page.getByText('Those of kernels that may run at once are disjoint.').waitFor();
});

test('the page says that the coordinator is away, and goes on when it is back', async () => {
  await open('#/plans');
  await page.getByText('Live', { exact: true }).waitFor();
  const plans = await rows(page, 'Plans');
  await cluster.stop('coordinator');
  const alert = page.getByRole('alert');
  await alert.getByText('No news from the coordinator').waitFor();
  assert.deepEqual((await rows(page, 'Plans')).length, plans.length);
  await cluster.startCoordinator();
  await alert.waitFor({ state: 'hidden' });
  await page.getByText('Live', { exact: true }).waitFor();
});

test('what is not there is said, with a way back', async () => {
  await page.goto(`${cluster.url}#/plans/999`);
  await page.getByRole('heading', { name: 'Not found' }).waitFor();
  await page.getByText('there is no plan 999').waitFor();
  await page.getByRole('link', { name: 'Go to Plans' }).click();
  await page.getByRole('heading', { name: 'Plans', level: 1 }).waitFor();
  await page.goto(`${cluster.url}#/nowhere/at/all`);
  await page.getByRole('heading', { name: 'Not found' }).waitFor();
});

test('the keyboard reaches everything', async () => {
  await open('#/devices');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter'); // "Skip to content"
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'H1');
  for (let presses = 0; presses < 40; ++presses) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => document.activeElement?.textContent);
    if (name === 'Node') break;
  }
  await page.keyboard.press('Enter');
  const header = page.getByRole('columnheader', { name: 'Node' });
  assert.equal(await header.getAttribute('aria-sort'), 'ascending');
});

test('nothing is wider than a phone', async () => {
  const { jobs } = await cluster.get<{ jobs: { id: string }[] }>('v1/jobs');
  const views = ['', '#/devices', '#/nodes', '#/networks', '#/history', '#/campaigns', '#/plans', '#/plans/1', '#/jobs', `#/jobs/${jobs[0]?.id}`];
  for (const width of [320, 390]) {
    await use({ viewport: { width, height: 700 } });
    for (const view of views) {
      await open(view);
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(over, 0, `${view} at ${width}`);
    }
  }
});

// More devices than this machine can hold: the answer of the coordinator, with
// its devices a thousand times.
test('a thousand devices are shown, filtered and refreshed', async () => {
  await page.route('**/v1/devices?*', async (route) => {
    const response = await route.fetch();
    const { devices: some } = (await response.json()) as { devices: { id: string }[] };
    const many = Array.from({ length: 1000 }, (_, index) => ({
      ...some[index % some.length],
      id: `device-${index}`,
    }));
    // A second page follows a full one.
    const rest = new URL(route.request().url()).searchParams.has('after');
    await route.fulfill({ response, json: { devices: rest ? [] : many } });
  });
  await open('#/devices');
  await page.getByText('1,000 devices', { exact: true }).waitFor();
  assert.equal((await rows(page, 'Devices')).length, 200);
  await page.getByRole('button', { name: 'Show 200 more' }).click();
  assert.equal((await rows(page, 'Devices')).length, 400);
  const start = Date.now();
  await page.getByRole('searchbox', { name: 'Filter devices' }).fill('device-777');
  await page.getByText('1 of 1,000 devices').waitFor();
  assert.ok(Date.now() - start < 1000, `filtering took ${Date.now() - start} ms`);
});

test('text stands out from its ground, light and dark', async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    await use({ colorScheme });
    await open('');
    const ratios = await page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const luminance = (name: string): number => {
        const hex = style.getPropertyValue(`--${name}`).trim().slice(1);
        const [r = 0, g = 0, b = 0] = [0, 2, 4].map((at) => {
          const value = parseInt(hex.slice(at, at + 2), 16) / 255;
          return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const found: Record<string, number> = {};
      for (const [text, ground] of [
        ...['text', 'muted', 'accent', 'bad', 'warn', 'second', 'third'].flatMap((name) => [
          [name, 'surface'] as const,
          [name, 'ground'] as const,
        ]),
        ['text', 'faint'] as const,
        ['text', 'bad-ground'] as const,
      ]) {
        const [low = 0, high = 0] = [luminance(text), luminance(ground)].sort((a, b) => a - b);
        found[`${text} on ${ground}`] = (high + 0.05) / (low + 0.05);
      }
      return found;
    });
    for (const [pair, contrast] of Object.entries(ratios)) {
      assert.ok(contrast >= 4.5, `${pair}, ${colorScheme}: ${contrast.toFixed(2)}`);
    }
  }
});

test('the page is small, typed and cached', async () => {
  const script = await fetch(`${cluster.url}page.js`);
  assert.ok((await script.arrayBuffer()).byteLength < 1_000_000);
  assert.equal(script.headers.get('x-content-type-options'), 'nosniff');
  const tag = script.headers.get('etag') ?? '';
  const again = await fetch(`${cluster.url}page.js`, { headers: { 'if-none-match': tag } });
  assert.equal(again.status, 304);
  const licences = await (await fetch(`${cluster.url}licences.txt`)).text();
  assert.match(licences, /echarts 6[\s\S]*Apache License[\s\S]*zrender[\s\S]*BSD 3-Clause/);
});
