// How a kernel divides its mini-batch: "8 × 32, FFT_TILING". Equal neighbours are
// told as one.

import type { MicroBatch } from './types.js';

export function microBatches(parts: MicroBatch[]): string[] {
  const told: { count: number; text: string }[] = [];
  for (const part of parts) {
    const text =
      `${part.batch}, ${part.algorithm}` +
      (part.math && part.math !== part.precision ? ` (${part.math})` : '');
    const last = told[told.length - 1];
    if (last?.text === text) last.count += part.count;
    else told.push({ count: part.count, text });
  }
  return told.map(({ count, text }) => `${count} × ${text}`);
}
