// Views that are one table: nodes, networks, and who did what.

import { api } from '../api.js';
import { h } from '../dom.js';
import { coordinator } from '../endpoint.js';
import * as format from '../format.js';
import { link } from '../route.js';
import { Table, age, numeric, plain } from '../table.js';
import type { Action, Agent, Network } from '../types.js';
import type { View } from '../view.js';
import { heading, nothing, state } from '../view.js';

function viewOf<T>(
  title: string,
  table: Table<T>,
  load: (signal: AbortSignal) => Promise<T[]>,
): View<T[]> {
  return {
    title,
    element: h('div', {}, heading(title), table.element),
    load,
    show: (rows) => table.show(rows),
  };
}

export function nodesView(params: URLSearchParams): View<Agent[]> {
  const table = new Table<Agent>({
    label: 'Nodes',
    noun: 'node',
    key: (row) => row.id,
    text: (row) => `${row.id} ${row.host} ${row.state} ${row.hold?.who ?? ''} ${row.hold?.reason ?? ''}`,
    empty: nothing('No agent has registered yet:', `ucudnn-agent ${coordinator('agent')}`),
    params: { at: params, prefix: '' },
    sortBy: { column: 0, descending: false },
    columns: [
      {
        title: 'Node',
        sort: (row) => row.id,
        cell: (row) => [
          h('a', { href: link(['devices'], { q: row.id }) }, row.id),
          row.host === row.id ? null : h('span', { class: 'sub' }, row.host),
        ],
      },
      { title: 'State', sort: (row) => row.state, cell: (row) => state(row.state) },
      numeric('Devices', (row) => row.device_ids.length, format.whole),
      {
        title: 'Held by',
        sort: (row) => row.hold?.who ?? '',
        cell: (row) =>
          row.hold
            ? [
                row.hold.who,
                h('span', { class: 'sub' }, `${row.hold.reason} ${format.ago(row.hold.since_ms)}`),
              ]
            : '–',
      },
      plain('Version', (row) => row.version),
      age('Seen', (row) => row.last_seen_ms),
    ],
  });
  return viewOf('Nodes', table, (signal) => api.agents(signal));
}

export function networksView(params: URLSearchParams): View<Network[]> {
  const table = new Table<Network>({
    label: 'Networks',
    noun: 'network',
    key: (row) => row.name,
    text: (row) => row.name,
    empty: nothing('No network is registered yet:', 'ucudnn networks put NAME FILE.onnx'),
    params: { at: params, prefix: '' },
    sortBy: { column: 0, descending: false },
    columns: [
      {
        title: 'Network',
        sort: (row) => row.name,
        cell: (row) => h('a', { href: link(['plans'], { q: row.name }) }, row.name),
      },
      numeric('Convolutions', (row) => row.layers.length, format.whole),
      numeric('Revision', (row) => row.revision, String),
      plain('From', (row) => row.format),
      age('Put', (row) => row.updated_ms),
    ],
  });
  return viewOf('Networks', table, (signal) => api.networks(signal));
}

export function historyView(params: URLSearchParams): View<Action[]> {
  const table = new Table<Action>({
    label: 'History',
    noun: 'action',
    key: (row) => String(row.id),
    text: (row) => `${row.who} ${row.what} ${row.object} ${row.reason} ${row.outcome}`,
    empty: nothing('Nobody has cancelled, removed, cordoned or drained anything yet.'),
    params: { at: params, prefix: '' },
    columns: [
      {
        title: 'When',
        sort: (row) => -row.made_ms,
        cell: (row) => h('span', { title: format.dateTime(row.made_ms) }, format.ago(row.made_ms)),
      },
      plain('Who', (row) => row.who),
      plain('What', (row) => `${row.what} ${row.object}`),
      plain('Why', (row) => row.reason),
      plain('Outcome', (row) => row.outcome),
    ],
  });
  return viewOf('History', table, (signal) => api.history(signal));
}
