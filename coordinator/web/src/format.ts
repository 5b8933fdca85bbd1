// Numbers, sizes, times and kinds as people read them.

import type { DeviceKind } from './types.js';

// What predicted times count.
export const kPredicted = 'Predicted (convolutions only)';
export const kPredictedWhole = 'Predicted (whole step)';

function significant(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 100) return value.toFixed(0);
  if (magnitude >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

// 183 µs, 12.3 ms, 1.25 s
export function time(us: number | null | undefined): string {
  if (us === null || us === undefined) return '–';
  if (us === 0) return '0';
  if (Math.abs(us) < 1000) return `${significant(us)} µs`;
  if (Math.abs(us) < 1e6) return `${significant(us / 1e3)} ms`;
  return `${significant(us / 1e6)} s`;
}

// The same for the marks of an axis: 10 ms rather than 10.0 ms.
export function mark(us: number): string {
  return time(us).replace(/\.0+ /, ' ').replace(/(\.\d*[1-9])0+ /, '$1 ');
}

// 0, 512 B, 64 MiB, 1.5 GiB
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  if (count === 0) return '0';
  const digits = Number.isInteger(value) ? String(value) : significant(value);
  return `${digits} ${units[unit]}`;
}

export function whole(count: number): string {
  return count.toLocaleString('en-GB');
}

// "1 plan", "3 plans"
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

// +3.1 %, −0.4 %
export function signedPercent(ratio: number): string {
  const percent = ratio * 100;
  const digits = Math.abs(percent) >= 100 ? 0 : 1;
  const text = Math.abs(percent).toFixed(digits);
  if (Number(text) === 0) return '0 %';
  return `${percent < 0 ? '−' : '+'}${text} %`;
}

// 1.83 ×
export function factor(value: number): string {
  return `${value >= 10 ? value.toFixed(1) : value.toFixed(2)} ×`;
}

// 40 s, 12 min, 3 h, 5 days
export function duration(ms: number): string {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// "12 min ago"; "–" for 0, which means never.
export function ago(ms: number, now: number = Date.now()): string {
  if (ms === 0) return '–';
  if (now - ms < 3000) return 'just now';
  return `${duration(now - ms)} ago`;
}

export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString('en-GB');
}

export function dateTime(ms: number): string {
  return ms === 0 ? '–' : new Date(ms).toLocaleString('en-GB');
}

// A kind of device in parts: "NVIDIA H200", "132 units · 139 GiB · cudnn-9.19".
export function kindParts(kind: DeviceKind): [string, string] {
  return [
    kind.model,
    `${counted(kind.units, 'unit')} · ${bytes(kind.memory_bytes)} · ${kind.library}`,
  ];
}

// Reads back the text of a kind: MODEL/UNITSu/MEMORY/LIBRARY, where only the
// model may hold a slash. "NVIDIA H200 132u" for "NVIDIA H200/132u/139GiB/...".
export function shortKind(text: string): string {
  const parts = text.split('/');
  if (parts.length < 4) return text;
  const model = parts.slice(0, -3).join('/');
  return `${model} ${parts[parts.length - 3]}`;
}

// "2 × NVIDIA H200 64u, 1 × ...": kinds of ranks, with how many there are.
export function kindCounts(kinds: string[]): string {
  const counts = new Map<string, number>();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts]
    .map(([kind, n]) => (n > 1 ? `${n} × ` : '') + shortKind(kind))
    .join(', ');
}

// "forward-c96-h27w27-k256-r5s5-pad2x2-..." as "forward 96→256, 5×5, 27×27".
export function problem(text: string): string {
  const match =
    /^(\w+)-c(\d+)-(?:d(\d+))?h(\d+)w(\d+)-k(\d+)-(?:t(\d+))?r(\d+)s(\d+)-/.exec(
      text,
    );
  if (!match) return text;
  const [, op, c, d, height, width, k, t, r, s] = match;
  const filter = [t, r, s].filter(Boolean).join('×');
  const input = [d, height, width].filter(Boolean).join('×');
  return `${operation(op ?? '')} ${c}→${k}, ${filter}, ${input}`;
}

// backward_data as "backward data"
export function operation(op: string): string {
  return op.replace('_', ' ');
}

export function images(count: number): string {
  return counted(count, 'image');
}
