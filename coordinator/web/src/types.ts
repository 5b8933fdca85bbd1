// The REST answers that the page reads, by the names of proto/ucudnn/v1; only
// the fields that it uses. Times are microseconds (_us) or Unix milliseconds
// (_ms).

export interface DeviceKind {
  model: string;
  units: number;
  memory_bytes: number;
  library: string;
}

export interface Comparison {
  relative_time: number;
  points: number;
  precision: string;
  deviates: boolean;
  text: string;
}

export interface Device {
  id: string;
  agent_id: string;
  kind: string;
  kind_details: DeviceKind;
  driver: string;
  state: string;
  state_reason: string;
  last_seen_ms: number;
  comparison: Comparison | null;
  measuring: Measuring | null;
}

// What a device measures now.
export interface Measuring {
  problem: string;
  batch: number;
  tasks: number;
}

export interface Agent {
  id: string;
  host: string;
  version: string;
  state: string;
  last_seen_ms: number;
  device_ids: string[];
  hold: { who: string; reason: string; since_ms: number } | null;
}

export interface Network {
  name: string;
  revision: number;
  format: string;
  layers: object[];
  updated_ms: number;
}

// Who did what.
export interface Action {
  id: number;
  made_ms: number;
  who: string;
  what: string;
  object: string;
  reason: string;
  outcome: string;
}

export interface PlanRequest {
  network: string;
  step: string; // instead: a framework's whole step
  batch: number;
  device_kinds: string[];
  workspace_limit_bytes: number;
  total_workspace_bytes: number;
  concurrent: boolean; // the total is divided among what may run at once
  batch_policy: string;
  precision: string;
  layout: string;
  memory?: object | null; // then times are of whole iterations
}

export interface Campaign {
  id: number;
  request: PlanRequest;
  state: string;
  created_ms: number;
  finished_ms: number;
  total: number;
  done: number;
  running: number;
  failed: number;
  cancelled_why: string;
  left_ms: number | null;
  failures: string[];
  kinds_without_device: string[];
}

export interface MicroBatch {
  batch: number;
  count: number;
  algorithm: string;
  math: string;
  time_us: number;
  workspace_bytes: number;
  precision: string;
}

export interface KernelPlan {
  layer: string;
  op: string;
  precision: string;
  layout: string;
  problem: string;
  time_us: number;
  undivided_time_us: number | null;
  workspace_bytes: number;
  offset_bytes: number | null;
  micro_batches: MicroBatch[];
}

export interface WorkspacePlan {
  batch: number;
  workspace_limit_bytes: number;
  total_time_us: number;
  lower_bound_us: number;
  optimal: boolean;
  undivided_time_us: number | null;
  total_workspace_bytes: number;
  concurrency: string; // which kernels may run at once; empty: none
  kernels: KernelPlan[];
}

export interface RankPlan {
  rank: number;
  device_kind: string;
  batch: number;
  weight: number;
  // Null if it is that of another rank.
  workspace: WorkspacePlan | null;
  workspace_of_rank: number | null;
  reason: string;
}

export interface Plan {
  id: number;
  request: PlanRequest;
  network_revision: number;
  predicted_us: number;
  lower_bound_us: number;
  optimal: boolean;
  whole_steps: boolean; // whether times are of those, not of convolutions alone
  undivided_us: number | null;
  ranks: RankPlan[];
  reasons: string[];
  created_ms: number;
}

export interface FrontPoint {
  time_us: number;
  workspace_bytes: number;
  micro_batches: MicroBatch[];
}

export interface Front {
  points: FrontPoint[];
}

export interface JobRevision {
  revision: number;
  plan_id: number;
  reason: string;
  created_ms: number;
  adopted_ms: number;
  rejected: string;
  predicted_us: number;
  proposed: boolean;
}

export interface StepTimes {
  revision: number;
  count: number;
  samples: number;
  last_us: number;
  median_us: number;
  p90_us: number;
  predicted_us: number;
  first_median_us: number;
  // Only of a single rank: the first steps and the latest ones, in order.
  first_us: number[];
  latest_us: number[];
}

export interface JobRank {
  rank: number;
  device_id: string;
  device_kind: string;
  host: string;
  last_seen_ms: number;
  steps: StepTimes[];
}

export interface Job {
  id: string;
  name: string;
  plan_id: number;
  revision: number;
  state: string;
  created_ms: number;
  updated_ms: number;
  request: PlanRequest | null;
  source: string;
  reason: string;
  newest_revision: number;
  revisions: JobRevision[];
  ranks: JobRank[];
  drift: string[];
  whole_steps: boolean; // whether its plan predicts those
  proposed_revision: number; // 0: none
}

export interface Status {
  version: string;
  grpc_port: number;
  database: string;
  agents_online: number;
  devices_online: number;
  networks: number;
  tasks_pending: number;
  tasks_running: number;
  tasks_done: number;
  tasks_failed: number;
}
