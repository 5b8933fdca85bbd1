// Views that are one table: nodes, networks, and who did what.

import { api } from '../api.js';
import { h } from '../dom.js';
import { coordinator } from '../endpoint.js';
import * as format from '../format.js';
import { link } from '../route.js';
import { Table } from '../table.js';
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
      {
        title: 'Devices',
        numeric: true,
        sort: (row) => row.device_ids.length,
        cell: (row) => format.whole(row.device_ids.length),
      },
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
      { title: 'Version', sort: (row) => row.version, cell: (row) => row.version },
      {
        title: 'Seen',
        numeric: true,
        sort: (row) => -row.last_seen_ms,
        cell: (row) => format.ago(row.last_seen_ms),
      },
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
      {
        title: 'Convolutions',
        numeric: true,
        sort: (row) => row.layers.length,
        cell: (row) => format.whole(row.layers.length),
      },
      { title: 'Revision', numeric: true, sort: (row) => row.revision, cell: (row) => String(row.revision) },
      { title: 'From', sort: (row) => row.format, cell: (row) => row.format },
      {
        title: 'Put',
        numeric: true,
        sort: (row) => -row.updated_ms,
        cell: (row) => format.ago(row.updated_ms),
      },
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
      { title: 'Who', sort: (row) => row.who, cell: (row) => row.who || '–' },
      {
        title: 'What',
        sort: (row) => `${row.what} ${row.object}`,
        cell: (row) => `${row.what} ${row.object}`,
      },
      { title: 'Why', sort: (row) => row.reason, cell: (row) => row.reason || '–' },
      { title: 'Outcome', sort: (row) => row.outcome, cell: (row) => row.outcome || '–' },
    ],
  });
  return viewOf('History', table, (signal) => api.history(signal));
}
