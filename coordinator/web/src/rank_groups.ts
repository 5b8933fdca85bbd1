// The ranks of a plan, those together that have the same plan.

import * as format from './format.js';
import type { Plan, RankPlan } from './types.js';

// Ranks with the same device kind and batch have the same plan.
export interface RankGroup {
  first: RankPlan;
  ranks: number[];
}

export function groups(plan: Plan): RankGroup[] {
  const found = new Map<string, RankGroup>();
  for (const rank of plan.ranks) {
    const key = `${rank.device_kind} ${rank.batch}`;
    const group = found.get(key);
    if (group) group.ranks.push(rank.rank);
    else found.set(key, { first: rank, ranks: [rank.rank] });
  }
  return [...found.values()];
}

// "rank 3", "ranks 0–7", "5 ranks from 0"
function rankNames(ranks: number[]): string {
  const [first = 0] = ranks;
  const last = ranks[ranks.length - 1] ?? 0;
  if (ranks.length === 1) return `rank ${first}`;
  return last - first + 1 === ranks.length
    ? `ranks ${first}–${last}`
    : `${ranks.length} ranks from ${first}`;
}

export function groupName(group: RankGroup): string {
  const { first } = group;
  const share = first.batch === 0 ? 'left out' : format.images(first.batch);
  return `${rankNames(group.ranks)}, ${format.shortKind(first.device_kind)}, ${share}`;
}
