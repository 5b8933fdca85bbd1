// The coordinator's REST interface.

import { Growing } from './growing.js';
import type {
  Action,
  Agent,
  Campaign,
  Device,
  Front,
  Job,
  JobRank,
  Network,
  Plan,
  Status,
} from './types.js';

const kTimeoutMs = 15_000;
// The most entries that the coordinator gives at once.
const kMaxPage = 1000;
// The most that the page asks for: beyond them, lists say so.
const kMaxEntries = 20_000;

// An answer that is an error, or none at all: `status` is then 0.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function get<T>(path: string, signal: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(kTimeoutMs);
  const either = new AbortController();
  const abort = () => either.abort();
  signal.addEventListener('abort', abort);
  timeout.addEventListener('abort', abort);
  try {
    // fetch refuses what is relative to an address with a password in it.
    const response = await fetch(new URL(path, location.origin + location.pathname), {
      signal: either.signal,
      headers: { Accept: 'application/json' },
    });
    const text = await response.text();
    if (!response.ok) throw new ApiError(response.status, reason(text));
    return JSON.parse(text) as T;
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
    if (timeout.aborted) {
      throw new ApiError(0, `no answer within ${kTimeoutMs / 1000} s`);
    }
    throw new ApiError(0, 'it cannot be reached');
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

// What the problem details of an error's body say, or the body itself.
function reason(text: string): string {
  try {
    const body = JSON.parse(text) as { detail?: string };
    if (body.detail) return body.detail;
  } catch {
    // Something between the page and the coordinator answered.
  }
  return text.slice(0, 200) || 'an empty answer';
}

async function all<T>(
  path: string,
  name: string,
  idOf: (item: T) => string,
  signal: AbortSignal,
): Promise<T[]> {
  const items: T[] = [];
  while (items.length < kMaxEntries) {
    const last = items[items.length - 1];
    const after = last === undefined ? '' : `&after=${encodeURIComponent(idOf(last))}`;
    const page = await get<Record<string, T[]>>(
      `${path}?limit=${kMaxPage}${after}`,
      signal,
    );
    const found = page[name] ?? [];
    if (found.length === 0) break; // a page may hold less than was asked for
    items.push(...found);
  }
  return items;
}

const id = encodeURIComponent;

export const api = {
  status: (signal: AbortSignal) => get<Status>('v1/status', signal),
  agents: (signal: AbortSignal) =>
    all<Agent>('v1/agents', 'agents', (a) => a.id, signal),
  devices: (signal: AbortSignal) =>
    all<Device>('v1/devices', 'devices', (d) => d.id, signal),
  campaigns: async (signal: AbortSignal) =>
    (await get<{ campaigns: Campaign[] }>('v1/campaigns?limit=100', signal))
      .campaigns,
  plans: new Growing<Plan>(
    async (limit, signal) =>
      (await get<{ plans: Plan[] }>(`v1/plans?limit=${limit}`, signal)).plans,
    (plan) => plan.id,
    500,
  ),
  plan: (plan: string, signal: AbortSignal) =>
    get<Plan>(`v1/plans/${id(plan)}`, signal),
  front: (
    plan: number,
    rank: number,
    layer: string,
    op: string,
    signal: AbortSignal,
  ) =>
    get<Front>(
      `v1/plans/${plan}/front?rank=${rank}&layer=${id(layer)}&op=${id(op)}`,
      signal,
    ),
  networks: (signal: AbortSignal) =>
    all<Network>('v1/networks', 'networks', (n) => n.name, signal),
  history: async (signal: AbortSignal) =>
    (await get<{ actions: Action[] }>('v1/actions?limit=500', signal)).actions,
  // The newest ones.
  jobs: async (limit: number, signal: AbortSignal) =>
    (await get<{ jobs: Job[] }>(`v1/jobs?limit=${limit}`, signal)).jobs,
  job: (job: string, signal: AbortSignal) =>
    get<Job>(`v1/jobs/${id(job)}`, signal),
  jobRank: (job: string, rank: number, signal: AbortSignal) =>
    get<JobRank>(`v1/jobs/${id(job)}/ranks/${rank}`, signal),
};
