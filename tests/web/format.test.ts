// Numbers, sizes, times and kinds as people read them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as format from '../../coordinator/web/src/format.js';
import { Growing } from '../../coordinator/web/src/growing.js';
import { series } from '../../coordinator/web/src/charts/steps.js';
import { inOrder } from '../../coordinator/web/src/charts/arena.js';
import type { KernelPlan, StepTimes } from '../../coordinator/web/src/types.js';

test('times have three digits and the unit that fits', () => {
  assert.equal(format.time(0), '0');
  assert.equal(format.time(0.5), '0.50 µs');
  assert.equal(format.time(999), '999 µs');
  assert.equal(format.time(20_512.3), '20.5 ms');
  assert.equal(format.time(1_250_000), '1.25 s');
  assert.equal(format.time(null), '–');
});

test('sizes are whole where they are', () => {
  assert.equal(format.bytes(0), '0');
  assert.equal(format.bytes(67_108_864), '64 MiB');
  assert.equal(format.bytes(1536), '1.50 KiB');
  assert.equal(format.bytes(1_000_000), '977 KiB');
});

test('ratios have a sign', () => {
  assert.equal(format.signedPercent(0.031), '+3.1 %');
  assert.equal(format.signedPercent(-0.0004), '0 %');
  assert.equal(format.signedPercent(-0.25), '−25.0 %');
  assert.equal(format.signedPercent(2.1), '+210 %');
});

test('kinds are shortened to model and units', () => {
  assert.equal(format.shortKind('NVIDIA H200/132u/139GiB/cudnn-9.19'), 'NVIDIA H200 132u');
  assert.equal(format.shortKind('A/B/8u/1GiB/onednn-2.6'), 'A/B 8u');
  assert.equal(format.shortKind('unknown'), 'unknown');
  assert.equal(
    format.kindCounts(['K/2u/1GiB/l', 'K/1u/1GiB/l', 'K/2u/1GiB/l']),
    '2 × K 2u, K 1u',
  );
});

test('problems are told in a few words', () => {
  assert.equal(
    format.problem(
      'forward-c96-h27w27-k256-r5s5-pad2x2-str1x1-dil1x1-g2-FP32-NCHW',
    ),
    'forward 96→256, 5×5, 27×27',
  );
  assert.equal(
    format.problem(
      'backward_data-c64-d8h56w56-k64-t3r3s3-pad1x1x1-str1x1x1-dil1x1x1-g1-FP32-NCHW',
    ),
    'backward data 64→64, 3×3×3, 8×56×56',
  );
  assert.equal(format.problem('<b>'), '<b>');
});

test('the steps that were not kept leave a gap', () => {
  const steps = { count: 300, first_us: [1, 2], latest_us: [8, 9] } as StepTimes;
  assert.deepEqual(series(steps, 10), [[11, 1], [12, 2], null, [309, 8], [310, 9]]);
  const all = { count: 3, first_us: [1, 2], latest_us: [3] } as StepTimes;
  assert.deepEqual(series(all, 0), [[1, 1], [2, 2], [3, 3]]);
});

test('an iteration runs forward, then backward', () => {
  const kernel = (layer: string, op: string) => ({ layer, op }) as KernelPlan;
  const kernels = ['a', 'b'].flatMap((layer) =>
    ['forward', 'backward_data', 'backward_filter'].map((op) => kernel(layer, op)),
  );
  assert.deepEqual(
    inOrder(kernels).map((k) => `${k.layer} ${k.op}`),
    [
      'a forward',
      'b forward',
      'b backward_data',
      'b backward_filter',
      'a backward_data',
      'a backward_filter',
    ],
  );
});

test('a growing list asks for all of it once, then for what is new', async () => {
  let last = 100;
  const asked: number[] = [];
  const list = new Growing(
    async (limit) => {
      asked.push(limit);
      return Array.from({ length: Math.min(limit, last) }, (_, index) => last - index);
    },
    (id) => id,
    50,
  );
  const { signal } = new AbortController();
  assert.equal((await list.load(signal)).length, 50);
  last += 3;
  const ids = await list.load(signal);
  assert.deepEqual([ids.length, ids[0], ids[49]], [50, 103, 54]);
  last += 30; // more than one look shows
  assert.deepEqual((await list.load(signal)).slice(0, 2), [133, 132]);
  assert.deepEqual(asked, [20, 50, 20, 20, 50]);
});

test('a short list is what was asked for last', async () => {
  let ids = [2, 1];
  const list = new Growing(async () => ids, (id) => id, 50);
  const { signal } = new AbortController();
  assert.deepEqual(await list.load(signal), [2, 1]);
  ids = [];
  assert.deepEqual(await list.load(signal), []);
});
