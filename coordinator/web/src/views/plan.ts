// One plan: what it is for, its ranks, and the kernels of one of them.

import { api } from '../api.js';
import { Chart } from '../chart.js';
import { bars } from '../charts/bars.js';
import { fill, h } from '../dom.js';
import * as format from '../format.js';
import { groupName, groups } from '../rank_groups.js';
import { limit } from '../requests.js';
import { link } from '../route.js';
import type { Plan } from '../types.js';
import type { View } from '../view.js';
import { facts, heading, section } from '../view.js';
import { Kernels } from './kernels.js';
import { gain } from './plans.js';

function planFacts(plan: Plan): HTMLElement {
  const { request } = plan;
  const value = gain(plan);
  const bound =
    plan.lower_bound_us > 0 ? `, bound ${format.time(plan.lower_bound_us)}` : '';
  return facts(
    [request.step ? 'Step' : 'Network', `${request.step || request.network}, revision ${plan.network_revision}`],
    ['Batch', `${format.images(request.batch)}, ${request.precision || 'FP32'} ${request.layout}`],
    ['Workspace', `at most ${limit(request)}, policy ${request.batch_policy || 'powerOfTwo'}`],
    [
      plan.whole_steps ? format.kPredictedWhole : format.kPredicted,
      [
        h('strong', {}, format.time(plan.predicted_us)),
        ` (${plan.optimal ? 'optimal' : 'not proven optimal'}${bound})`,
      ],
    ],
    [
      'Undivided',
      value === null
        ? 'nothing undivided fits the limit'
        : `${format.time(plan.undivided_us)}: the plan is ${format.factor(value)} as fast`,
    ],
    ['Made', format.dateTime(plan.created_ms)],
  );
}

export function planView(id: string, params: URLSearchParams): View<Plan> {
  const about = h('div');
  const reasons = h('ul', { class: 'reasons' });
  const why = section('Reasons', reasons);
  const ranksChart = new Chart(
    'Filled: planned. Dashed outline behind: without dividing batches.',
  );
  const kernels = new Kernels(params);
  let last: Plan | undefined;
  ranksChart.onClick((name) => kernels.pickRank(Number(name)));
  return {
    title: `Plan ${id}`,
    element: h(
      'div',
      {},
      heading(`Plan ${id}`, h('a', { class: 'back', href: link(['plans']) }, 'All plans')),
      about,
      section('Ranks', ranksChart.element),
      kernels.element,
      why,
    ),
    // Plans never change: once it is there, only the coordinator is watched.
    load: async (signal) => {
      if (!last) return api.plan(id, signal);
      await api.status(signal);
      return last;
    },
    show: (plan) => {
      if (last) return;
      last = plan;
      const all = groups(plan);
      fill(about, planFacts(plan));
      why.hidden = plan.reasons.length === 0;
      fill(reasons, ...plan.reasons.map((reason) => h('li', {}, reason)));
      ranksChart.show(
        bars(
          all.map((group, index) => ({
            name: String(index),
            label: groupName(group),
            planned: group.first.workspace?.total_time_us ?? 0,
            undivided: group.first.workspace?.undivided_time_us ?? null,
          })),
        ),
      );
      kernels.show(plan, all);
    },
    leave: () => {
      ranksChart.dispose();
      kernels.dispose();
    },
  };
}
