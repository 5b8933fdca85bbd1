// How a kernel divides its mini-batch, in words: "8 of 32 images, FFT_TILING".

import { images } from './format.js';
import type { MicroBatch } from './types.js';

export function microBatches(parts: MicroBatch[]): string[] {
  return parts.map(
    (part) =>
      `${part.count} of ${images(part.batch)}, ${part.algorithm}` +
      (part.math && part.math !== part.precision ? ` (${part.math})` : ''),
  );
}
