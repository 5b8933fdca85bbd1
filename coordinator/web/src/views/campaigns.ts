// Campaigns: the measurements that requests for plans wait for.

import { api } from '../api.js';
import { h } from '../dom.js';
import type { Child } from '../dom.js';
import * as format from '../format.js';
import { limit, terms, ranks } from '../requests.js';
import { Table, age, plain } from '../table.js';
import type { Campaign } from '../types.js';
import type { View } from '../view.js';
import { heading, nothing, state } from '../view.js';

export function ended(campaign: Campaign): number {
  return campaign.done + campaign.failed;
}

// What keeps it, or when it ends.
export function outlook(campaign: Campaign): string {
  if (campaign.state !== 'running') {
    const took = campaign.finished_ms - campaign.created_ms;
    if (campaign.state === 'cancelled') return `cancelled ${campaign.cancelled_why}`;
    return `took ${format.duration(took)}`;
  }
  if (campaign.kinds_without_device.length > 0) {
    const kinds = campaign.kinds_without_device.map(format.shortKind).join(', ');
    return `waits for a device of kind ${kinds}`;
  }
  return campaign.left_ms === null
    ? 'no estimate yet'
    : `about ${format.duration(campaign.left_ms)} left`;
}

export function progress(campaign: Campaign): Child[] {
  const running = campaign.running > 0 ? `, ${campaign.running} running` : '';
  const failed =
    campaign.failed > 0 ? `, ${format.whole(campaign.failed)} failed` : '';
  const text =
    `${format.whole(ended(campaign))} of ${format.whole(campaign.total)}` +
    running +
    failed;
  return [
    h('progress', {
      max: Math.max(1, campaign.total),
      value: ended(campaign),
      'aria-label': `${campaign.request.network}: ${text}`,
    }),
    h('span', { class: 'sub' }, text),
  ];
}

function text({ request, state: now }: Campaign): string {
  return `${request.network} ${now} ${request.device_kinds.join(' ')} ${limit(request)}`;
}

export const kNoCampaigns = () =>
  nothing(
    'Nothing has been measured yet. A campaign begins when a plan needs measurements that no device of its kind has made:',
    'ucudnn networks put NAME FILE.onnx',
    'ucudnn plan --network NAME --batch 256 --workspace-limit 64MiB',
  );

// `short` tables, beside others, have no filter.
export function campaignsTable(empty: Child, short = false): Table<Campaign> {
  return new Table<Campaign>({
    label: 'Campaigns',
    noun: 'campaign',
    key: (row) => String(row.id),
    ...(short ? {} : { text }),
    empty,
    columns: [
      {
        title: 'For a plan of',
        sort: (row) => row.request.network,
        cell: (row) => [
          h('strong', {}, row.request.network),
          h('span', { class: 'sub' }, `campaign ${row.id}: ${terms(row.request)}`),
        ],
      },
      plain('On', (row) => ranks(row.request)),
      { title: 'State', sort: (row) => row.state, cell: (row) => state(row.state) },
      {
        title: 'Measured',
        sort: (row) => ended(row) / Math.max(1, row.total),
        cell: progress,
      },
      {
        title: 'Estimate',
        sort: (row) => row.left_ms ?? Number.MAX_SAFE_INTEGER,
        cell: (row) => [
          outlook(row),
          row.failures[0]
            ? h('span', { class: 'sub bad' }, `✕ ${row.failures[0]}`)
            : null,
        ],
      },
      age('Begun', (row) => row.created_ms),
    ],
  });
}

export function campaignsView(): View<Campaign[]> {
  const table = campaignsTable(kNoCampaigns());
  return {
    title: 'Campaigns',
    element: h('div', {}, heading('Campaigns'), table.element),
    load: (signal) => api.campaigns(signal),
    show: (campaigns) => table.show(campaigns),
  };
}
