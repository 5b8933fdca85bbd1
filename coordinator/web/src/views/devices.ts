// Devices: their kinds, and each with its state and what it measures.

import { api } from '../api.js';
import { kinds, kStates, machines } from '../devices.js';
import type { KindCount, Machine } from '../devices.js';
import { fill, h } from '../dom.js';
import { coordinator } from '../endpoint.js';
import * as format from '../format.js';
import { keepParams, link } from '../route.js';
import { Table, age, numeric, plain } from '../table.js';
import type { View } from '../view.js';
import { heading, nothing, section, state } from '../view.js';

export const kNoDevices = () =>
  nothing(
    'No device has registered yet. Start an agent on a node of each kind of GPU; without a GPU it measures the CPU:',
    `ucudnn-agent ${coordinator('agent')}`,
  );

function measuring({ device, state: now }: Machine): string {
  if (now === 'measuring' && device.measuring) {
    const { problem, batch } = device.measuring;
    return `${format.problem(problem)}, ${format.images(batch)}`;
  }
  return device.state_reason;
}

function compared({ device }: Machine): string {
  const { comparison } = device;
  if (!comparison) return '–';
  const sign = comparison.deviates ? '▲ ' : '';
  return sign + format.signedPercent(comparison.relative_time - 1);
}

function kindTable(): Table<KindCount> {
  return new Table<KindCount>({
    label: 'Kinds of devices',
    noun: 'kind',
    key: (row) => row.text,
    empty: kNoDevices(),
    columns: [
      {
        title: 'Kind',
        sort: (row) => row.text,
        cell: (row) => {
          const [model, rest] = format.kindParts(row.kind);
          return [
            h('a', { href: link(['devices'], { kind: row.text }) }, model),
            h('span', { class: 'sub' }, rest),
          ];
        },
      },
      numeric('Devices', (row) => row.devices, format.whole),
      ...kStates.map((name) =>
        numeric(
          name[0]?.toUpperCase() + name.slice(1),
          (row: KindCount) => row.states[name] ?? 0,
          format.whole,
        ),
      ),
      numeric('Deviating', (row) => row.deviating, (n) => (n > 0 ? `▲ ${n}` : '0')),
    ],
  });
}

function choice(
  label: string,
  name: string,
  at: URLSearchParams,
  changed: () => void,
): HTMLSelectElement {
  const select = h('select', {
    'aria-label': label,
    onchange: () => {
      keepParams({ [name]: select.value });
      changed();
    },
  });
  setChoices(select, label, [], at.get(name) ?? '');
  return select;
}

function setChoices(
  select: HTMLSelectElement,
  label: string,
  values: [string, string][],
  chosen: string,
): void {
  const known = values.some(([value]) => value === chosen);
  const options: [string, string][] =
    chosen === '' || known ? values : [...values, [chosen, format.shortKind(chosen)]];
  fill(
    select,
    h('option', { value: '' }, label),
    ...options.map(([value, text]) => h('option', { value }, text)),
  );
  select.value = chosen;
}

export function devicesView(params: URLSearchParams): View<Machine[]> {
  const byKind = kindTable();
  const kind = choice('All kinds', 'kind', params, () => table.draw());
  const status = choice('All states', 'state', params, () => table.draw());
  setChoices(
    status,
    'All states',
    kStates.map((name) => [name, name]),
    params.get('state') ?? '',
  );
  const table = new Table<Machine>({
    label: 'Devices',
    noun: 'device',
    key: ({ device }) => device.id,
    text: (row) =>
      `${row.device.id} ${row.device.agent_id} ${row.host} ${row.device.kind} ${row.state} ${measuring(row)}`,
    controls: h('span', { class: 'controls' }, kind, status),
    keep: (row) =>
      (kind.value === '' || row.device.kind === kind.value) &&
      (status.value === '' || row.state === status.value),
    empty: null,
    params: { at: params, prefix: '' },
    sortBy: { column: 0, descending: false },
    columns: [
      {
        title: 'Device',
        sort: ({ device }) => device.id,
        cell: ({ device }) => h('code', {}, device.id),
      },
      {
        title: 'Node',
        sort: ({ device }) => device.agent_id,
        cell: ({ device, host }) => [
          device.agent_id,
          host === device.agent_id ? null : h('span', { class: 'sub' }, host),
        ],
      },
      {
        title: 'Kind',
        sort: ({ device }) => device.kind,
        cell: ({ device }) => format.shortKind(device.kind),
      },
      {
        title: 'State',
        sort: (row) => kStates.indexOf(row.state),
        cell: (row) => state(row.state),
      },
      plain('Doing', measuring),
      {
        title: 'Against its kind',
        numeric: true,
        sort: ({ device }) => device.comparison?.relative_time ?? 1,
        cell: (row) =>
          h('span', { title: row.device.comparison?.text }, compared(row)),
      },
      age('Seen', ({ device }) => device.last_seen_ms),
    ],
  });
  const each = section('Each device', table.element);
  return {
    title: 'Devices',
    element: h(
      'div',
      {},
      heading('Devices'),
      section('By kind', byKind.element),
      each,
    ),
    load: async (signal) => {
      const [devices, agents] = await Promise.all([
        api.devices(signal),
        api.agents(signal),
      ]);
      return machines(devices, agents);
    },
    show: (all) => {
      const counts = kinds(all);
      setChoices(
        kind,
        'All kinds',
        counts.map((count) => [count.text, format.shortKind(count.text)]),
        kind.value,
      );
      byKind.show(counts);
      table.show(all);
      each.hidden = all.length === 0;
    },
  };
}
