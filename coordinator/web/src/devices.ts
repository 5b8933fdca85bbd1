// Devices in the states that people ask about.

import type { Agent, Device, DeviceKind } from './types.js';

export interface Machine {
  device: Device;
  host: string;
  state: string; // of kStates
}

// A device that holds leases measures; a lost one does nothing.
export function machines(devices: Device[], agents: Agent[]): Machine[] {
  const hosts = new Map(agents.map((agent) => [agent.id, agent.host]));
  return devices.map((device) => ({
    device,
    host: hosts.get(device.agent_id) || device.agent_id,
    state:
      device.state !== 'lost' && device.measuring ? 'measuring' : device.state,
  }));
}

export interface KindCount {
  text: string;
  kind: DeviceKind;
  devices: number;
  states: Record<string, number>;
  deviating: number;
}

export const kStates = [
  'idle',
  'measuring',
  'busy',
  'cordoned',
  'draining',
  'lost',
];

// By model, then units, largest first.
export function kinds(all: Machine[]): KindCount[] {
  const counts = new Map<string, KindCount>();
  for (const { device, state } of all) {
    const count = counts.get(device.kind) ?? {
      text: device.kind,
      kind: device.kind_details,
      devices: 0,
      states: {},
      deviating: 0,
    };
    ++count.devices;
    count.states[state] = (count.states[state] ?? 0) + 1;
    if (device.comparison?.deviates) ++count.deviating;
    counts.set(device.kind, count);
  }
  return [...counts.values()].sort(
    (a, b) =>
      a.kind.model.localeCompare(b.kind.model, 'en', { numeric: true }) ||
      b.kind.units - a.kind.units,
  );
}
