// Requests for plans, in words.

import { bytes, counted, images, kindCounts } from './format.js';
import type { PlanRequest } from './types.js';

// "alexnet", "step resnet50"
export function planned(request: PlanRequest): string {
  return request.step ? `step ${request.step}` : request.network;
}

export function limitOf(request: PlanRequest): number {
  return request.total_workspace_bytes || request.workspace_limit_bytes;
}

// "64 MiB a kernel", "960 MiB in all", "960 MiB divided among what may run at once"
export function limit(request: PlanRequest): string {
  return request.total_workspace_bytes > 0
    ? `${bytes(request.total_workspace_bytes)} ` +
        (request.concurrent ? 'divided among what may run at once' : 'in all')
    : `${bytes(request.workspace_limit_bytes)} a kernel`;
}

// "256 images, FP32, at most 64 MiB a kernel", "256 images"
export function terms(request: PlanRequest): string {
  if (request.step) return images(request.batch);
  const layout = request.layout && request.layout !== 'NCHW' ? ` ${request.layout}` : '';
  return (
    `${images(request.batch)}, ${request.precision || 'FP32'}${layout}, ` +
    `at most ${limit(request)}`
  );
}

// "2 ranks: 2 × NVIDIA H200 132u"
export function ranks(request: PlanRequest): string {
  const count = Math.max(1, request.device_kinds.length);
  const kinds = kindCounts(request.device_kinds);
  return `${counted(count, 'rank')}${kinds ? `: ${kinds}` : ''}`;
}
