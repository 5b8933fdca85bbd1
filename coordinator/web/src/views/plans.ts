// All plans.

import { api } from '../api.js';
import { h } from '../dom.js';
import type { Child } from '../dom.js';
import * as format from '../format.js';
import { limitOf, planned, ranks, terms } from '../requests.js';
import { link } from '../route.js';
import { Table, age, numeric, plain } from '../table.js';
import type { Plan } from '../types.js';
import type { View } from '../view.js';
import { heading, nothing } from '../view.js';

export function gain(plan: Plan): number | null {
  if (!plan.undivided_us || plan.predicted_us === 0) return null;
  return plan.undivided_us / plan.predicted_us;
}

export const kNoPlans = () =>
  nothing(
    'No plan has been made yet. Name a network and ask for one:',
    'ucudnn networks put NAME FILE.onnx',
    'ucudnn plan --network NAME --batch 256 --workspace-limit 64MiB',
  );

function text({ id, request }: Plan): string {
  return `${id} ${planned(request)} ${request.precision} ${request.device_kinds.join(' ')}`;
}

// Without `params`, a short table beside others, which has no filter.
export function plansTable(empty: Child, params?: URLSearchParams): Table<Plan> {
  return new Table<Plan>({
    label: 'Plans',
    noun: 'plan',
    key: (row) => String(row.id),
    empty,
    ...(params ? { text, params: { at: params, prefix: '' } } : {}),
    columns: [
      {
        title: 'Plan',
        sort: (row) => row.id,
        cell: (row) => h('a', { href: link(['plans', String(row.id)]) }, `Plan ${row.id}`),
      },
      {
        title: 'Network',
        sort: (row) => planned(row.request),
        cell: (row) => [
          h('strong', {}, planned(row.request)),
          h('span', { class: 'sub' }, terms(row.request)),
        ],
      },
      plain('On', (row) => ranks(row.request)),
      numeric('Limit', (row) => limitOf(row.request), format.bytes),
      {
        title: format.kPredicted,
        numeric: true,
        sort: (row) => row.predicted_us,
        cell: (row) => [
          format.time(row.predicted_us),
          row.whole_steps ? h('span', { class: 'sub' }, 'whole step') : null,
        ],
      },
      numeric('Undivided', (row) => row.undivided_us, format.time),
      numeric('Gain', gain, (value) => (value === null ? '–' : format.factor(value))),
      age('Made', (row) => row.created_ms),
    ],
  });
}

export function plansView(params: URLSearchParams): View<Plan[]> {
  const table = plansTable(kNoPlans(), params);
  const note = h('p', { class: 'note', hidden: true }, `The newest ${api.plans.most} are listed.`);
  return {
    title: 'Plans',
    element: h('div', {}, heading('Plans'), table.element, note),
    load: (signal) => api.plans.load(signal),
    show: (plans) => {
      table.show(plans);
      note.hidden = plans.length < api.plans.most;
    },
  };
}
