// Pictures of the page for docs/, on a desktop and on a phone, light and dark:
//
//   node build/ci/tests/web/screenshots.mjs OUT [UI_DIR]
//
// with UCUDNN_BIN_DIR and UCUDNN_TEST_DATA as in CMakeLists.txt. Needs some
// minutes: AlexNet is replayed from the H200's measurements, a small network is
// measured on this machine's CPU and trained.

import { mkdir } from 'node:fs/promises';
import path from 'node:path';

import { launch, watch } from './browser.js';
import { Cluster, kTinyNetwork, until } from './cluster.js';

const kAlexNet = 'networks/alexnet_torchvision.csv';
const kResNet = 'networks/resnet18.csv';

const [out = 'screenshots', ui] = process.argv.slice(2);

async function fill(cluster: Cluster): Promise<void> {
  await cluster.startCoordinator(...(ui ? ['--ui-dir', ui] : []));
  for (const id of ['gpu-1', 'gpu-2', 'gpu-3']) {
    cluster.replay(id, 'h200/alexnet_b256_pow2.csv', kAlexNet, 132, '--noise', '0.01');
  }
  cluster.replay('gpu-4', 'h200/alexnet_b256_pow2.csv', kAlexNet, 132, '--slower', '1.2');
  cluster.replay('slice-1', 'h200/alexnet_b256_pow2_sm64.csv', kAlexNet, 64);
  cluster.startAgent();
  await until(async () => {
    const answer = await cluster.get<{ devices: object[] }>('v1/devices');
    return answer.devices.length === 7;
  });
  const kind = (units: number) => `Recorded device/${units}u/1GiB/recorded-1.0`;
  await cluster.ucudnn('networks', 'put', 'alexnet', path.join(cluster.data, kAlexNet));
  const plan = (limit: string, ...kinds: number[]) =>
    cluster.ucudnn(
      ...['plan', '--network', 'alexnet', '--batch', '256', '--workspace-limit', limit],
      ...['--device-kind', ...kinds.map(kind)],
    );
  await plan('64MiB', 132, 64);
  await plan('8MiB', 132);
  await plan('64MiB', 132);
  await cluster.putNetwork('tiny', kTinyNetwork);
  await cluster.train('tiny', 200);
  await cluster.train('tiny', 40);
  // A campaign that runs: this profile's agent sleeps as long as the GPU ran.
  await cluster.ucudnn('networks', 'put', 'resnet18', path.join(cluster.data, kResNet));
  cluster.replay('slow', 'h200/resnet18_b128_pow2.csv.gz', kResNet, 16, '--real-time');
  await until(async () => {
    const answer = await cluster.get<{ devices: object[] }>('v1/devices');
    return answer.devices.length === 8;
  });
  void cluster
    .ucudnn('plan', '--network', 'resnet18', '--batch', '128', '--workspace-limit', '64MiB', '--device-kind', kind(16))
    .catch(() => {});
  await until(async () => {
    const { campaigns } = await cluster.get<{ campaigns: { left_ms: number | null }[] }>('v1/campaigns');
    return typeof campaigns[0]?.left_ms === 'number';
  });
}

const views: [string, string][] = [
  ['overview', ''],
  ['devices', '#/devices'],
  ['campaigns', '#/campaigns'],
  ['plans', '#/plans'],
  ['plan', '#/plans/3'],
  ['jobs', '#/jobs'],
];

const cluster = await Cluster.create();
const browser = await launch();
try {
  await mkdir(out, { recursive: true });
  await fill(cluster);
  const { jobs } = await cluster.get<{ jobs: { id: string }[] }>('v1/jobs');
  const last = jobs[jobs.length - 1];
  if (last) views.push(['job', `#/jobs/${last.id}`]);
  if (process.env['KEEP']) {
    console.log(cluster.url, views);
    await new Promise((resolve) => setTimeout(resolve, Number(process.env['KEEP']) * 1000));
  }
  for (const [form, width] of [['desktop', 1280], ['phone', 390]] as const) {
    for (const scheme of ['light', 'dark'] as const) {
      const context = await browser.newContext({
        viewport: { width, height: 800 },
        colorScheme: scheme,
        reducedMotion: 'reduce',
      });
      const page = await context.newPage();
      const complaints = watch(page);
      for (const [name, hash] of views) {
        await page.goto(cluster.url + hash);
        await page.locator('.view:not(.loading)').waitFor();
        await page.waitForLoadState('networkidle');
        await page.screenshot({
          path: path.join(out, `${name}-${form}-${scheme}.png`),
          fullPage: true,
        });
      }
      if (complaints.length > 0) console.error(complaints);
      await context.close();
    }
  }
} finally {
  await browser.close();
  await cluster.close();
}
