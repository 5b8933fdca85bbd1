// The kernels of one group of a plan's ranks, the front of one kernel, and the
// workspace arena.

import { ApiError, api } from '../api.js';
import { Chart } from '../chart.js';
import { arena, inOrder } from '../charts/arena.js';
import { bars } from '../charts/bars.js';
import { front } from '../charts/front.js';
import { fill, h, setText } from '../dom.js';
import * as format from '../format.js';
import { microBatches } from '../micro_batches.js';
import type { RankGroup } from '../rank_groups.js';
import { groupName } from '../rank_groups.js';
import { limitOf } from '../requests.js';
import { keepParams } from '../route.js';
import { Table, numeric } from '../table.js';
import type { Front, KernelPlan, Plan } from '../types.js';
import { section } from '../view.js';

const kMaxBars = 20;

function kernelName(kernel: KernelPlan): string {
  return `${kernel.layer} ${format.operation(kernel.op)}`;
}

function kernelKey(kernel: KernelPlan): string {
  return `${kernel.layer} ${kernel.op}`;
}

export class Kernels {
  readonly element: HTMLElement;
  private readonly chart = new Chart();
  private readonly frontChart = new Chart();
  private readonly frontNote = h('p', { class: 'note', role: 'status' });
  private readonly frontTitle = h('h3');
  private readonly arenaChart = new Chart();
  private readonly rankPick = h('select', {
    'aria-label': 'Ranks',
    onchange: () => this.pickRank(Number(this.rankPick.value)),
  });
  private readonly table: Table<KernelPlan>;
  private plan: Plan | undefined;
  private group: RankGroup | undefined;
  private kernel = '';
  private readonly controller = new AbortController();

  constructor(private readonly params: URLSearchParams) {
    this.kernel = params.get('kernel') ?? '';
    this.table = new Table<KernelPlan>({
      label: 'Kernels',
      noun: 'kernel',
      key: kernelKey,
      text: (k) => `${kernelName(k)} ${microBatches(k.micro_batches).join(' ')}`,
      empty: h('p', {}, 'This rank is left out, so it runs no kernel.'),
      params: { at: params, prefix: 'k' },
      columns: [
        {
          title: 'Kernel',
          cell: (k) =>
            h(
              'button',
              {
                type: 'button',
                class: 'link',
                'aria-pressed': String(kernelKey(k) === this.kernel),
                onclick: () => this.pickKernel(kernelKey(k)),
              },
              kernelName(k),
            ),
        },
        numeric('Planned', (k) => k.time_us, format.time),
        numeric('Undivided', (k) => k.undivided_time_us, format.time),
        {
          title: 'Workspace',
          numeric: true,
          sort: (k) => k.workspace_bytes,
          cell: (k) =>
            format.bytes(k.workspace_bytes) +
            (this.divided() ? ` from ${format.bytes(k.offset_bytes ?? 0)}` : ''),
        },
        {
          title: 'Micro-batches',
          cell: (k) =>
            microBatches(k.micro_batches).map((text) => h('div', {}, text)),
        },
      ],
    });
    this.chart.onClick((name) => this.pickKernel(name));
    this.element = h(
      'div',
      {},
      section(
        'Kernels',
        h('div', { class: 'toolbar' }, this.rankPick),
        this.chart.element,
        this.table.element,
      ),
      section('Front of a kernel', this.frontTitle, this.frontChart.element, this.frontNote),
      section('Workspace arena', this.arenaChart.element),
    );
  }

  show(plan: Plan, all: RankGroup[]): void {
    if (this.plan) return; // plans never change
    this.plan = plan;
    fill(
      this.rankPick,
      ...all.map((group, index) => h('option', { value: index }, groupName(group))),
    );
    const wanted = Number(this.params.get('rank') ?? 0);
    const index = all.findIndex((group) => group.ranks.includes(wanted));
    this.pickRank(Math.max(0, index), all);
  }

  private allGroups: RankGroup[] = [];

  pickRank(index: number, all = this.allGroups): void {
    this.allGroups = all;
    this.group = all[index];
    this.rankPick.value = String(index);
    const workspace = this.group?.first.workspace;
    if (!this.group || !workspace) return;
    if (index > 0) keepParams({ rank: String(this.group.first.rank) });
    const kernels = inOrder(workspace.kernels);
    this.table.show(kernels);
    this.drawKernels(kernels);
    const offsets = kernels.some((k) => k.offset_bytes !== null);
    this.arenaChart.show(
      arena(workspace),
      'F forward, D backward data, W backward filter. ' +
        (offsets
          ? 'A rectangle is a kernel’s workspace while the kernel runs.' +
            (this.divided() ? ' Those of kernels that may run at once are disjoint.' : '')
          : 'Kernels run one after another, so each one’s workspace begins where the arena does.'),
    );
    const known = kernels.some((k) => kernelKey(k) === this.kernel);
    const saved = (k: KernelPlan) => (k.undivided_time_us ?? k.time_us) - k.time_us;
    const first = [...kernels].sort(
      (a, b) => saved(b) - saved(a) || b.time_us - a.time_us,
    )[0];
    const kernel = known ? this.kernel : first && kernelKey(first);
    if (kernel) this.pickKernel(kernel, !known);
  }

  private drawKernels(kernels: KernelPlan[]): void {
    const longest = [...kernels]
      .sort((a, b) => b.time_us - a.time_us)
      .slice(0, kMaxBars);
    const shown = kernels.filter((k) => longest.includes(k));
    this.chart.show(
      bars(
        shown.map((k) => ({
          name: kernelKey(k),
          label: kernelName(k),
          planned: k.time_us,
          undivided: k.undivided_time_us,
        })),
      ),
      `Filled: planned. Dashed outline behind: the fastest undivided batch under the same limit.` +
        (shown.length < kernels.length
          ? ` The ${kMaxBars} longest of ${kernels.length} kernels.`
          : ''),
    );
  }

  private pickKernel(key: string, byDefault = false): void {
    this.kernel = key;
    if (!byDefault) keepParams({ kernel: key });
    const kernel = this.group?.first.workspace?.kernels.find((k) => kernelKey(k) === key);
    const plan = this.plan;
    if (!kernel || !plan || !this.group) return;
    this.table.draw();
    setText(this.frontTitle, kernelName(kernel));
    setText(this.frontNote, 'Asking for the front…');
    api
      .front(plan.id, this.group.first.rank, kernel.layer, kernel.op, this.controller.signal)
      .then(
        (answer) =>
          this.kernel === key &&
          this.drawFront(
            answer,
            this.divided() ? kernel.workspace_bytes : limitOf(plan.request),
          ),
        (error: unknown) => {
          if (this.controller.signal.aborted || this.kernel !== key) return;
          if (!(error instanceof ApiError)) throw error;
          setText(this.frontNote, `There is no front: ${error.message}.`);
        },
      );
  }

  // Whether kernels that may run at once have segments.
  private divided(): boolean {
    return Boolean(this.group?.first.workspace?.concurrency);
  }

  private drawFront(answer: Front, limitNow: number): void {
    this.frontChart.show(front(answer.points, limitNow));
    const next = answer.points.find((p) => p.workspace_bytes > limitNow);
    setText(
      this.frontNote,
      'Divisions of the mini-batch that no other beats in both time and workspace, from today’s measurements. ' +
        (next
          ? `The next faster one takes ${format.time(next.time_us)} and needs ${format.bytes(next.workspace_bytes)}.`
          : 'A larger limit would bring nothing.'),
    );
  }

  dispose(): void {
    this.controller.abort();
    this.chart.dispose();
    this.frontChart.dispose();
    this.arenaChart.dispose();
  }
}
