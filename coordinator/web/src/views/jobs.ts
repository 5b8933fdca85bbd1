// All jobs, and how far the measured times of the newest are from predictions.

import { ApiError, api } from '../api.js';
import { Chart } from '../chart.js';
import { deviation, kBand, ratio } from '../charts/deviation.js';
import type { Sample } from '../charts/deviation.js';
import { h, setText } from '../dom.js';
import type { Child } from '../dom.js';
import { coordinator } from '../endpoint.js';
import * as format from '../format.js';
import { planned, ranks, terms } from '../requests.js';
import { link } from '../route.js';
import { Table, age, numeric } from '../table.js';
import type { Job } from '../types.js';
import type { View } from '../view.js';
import { heading, nothing, section, state } from '../view.js';

const kNewest = 500;
// Jobs whose step times are asked for, one by one.
const kCompared = 12;

export const kNoJobs = () =>
  nothing(
    'No job has registered yet. Jobs that use a session report here; without a program of yours, train a network:',
    `mpirun -np 2 ucudnn-train ${coordinator('job')} --network FILE.onnx --batch 64 --memory-budget 6GiB,2GiB`,
  );

export function jobName(job: Job): string {
  return job.name || (job.request ? planned(job.request) : '') || 'job';
}

export function jobState(job: Job): HTMLElement {
  return state(job.state);
}

function text({ id, name, state: now, request }: Job): string {
  return `${id} ${name} ${now} ${request ? planned(request) : ''}`;
}

// Without `params`, a short table beside others, which has no filter.
export function jobsTable(empty: Child, params?: URLSearchParams): Table<Job> {
  return new Table<Job>({
    label: 'Jobs',
    noun: 'job',
    key: (row) => row.id,
    empty,
    ...(params ? { text, params: { at: params, prefix: '' } } : {}),
    columns: [
      {
        title: 'Job',
        sort: jobName,
        cell: (row) => [
          h('a', { href: link(['jobs', row.id]) }, jobName(row)),
          h('span', { class: 'sub' }, h('code', {}, row.id)),
        ],
      },
      { title: 'State', sort: (row) => row.state, cell: jobState },
      {
        title: 'Network',
        sort: (row) => (row.request ? planned(row.request) : ''),
        cell: (row) =>
          row.request
            ? [
                h('strong', {}, planned(row.request)),
                h('span', { class: 'sub' }, terms(row.request)),
              ]
            : '–',
      },
      {
        title: 'On',
        sort: (row) => row.request?.device_kinds.length ?? 0,
        cell: (row) => (row.request ? ranks(row.request) : '–'),
      },
      numeric('Revision', (row) => row.revision, String),
      age('Begun', (row) => row.created_ms),
      age('Last heard of', (row) => row.updated_ms),
    ],
  });
}

// A sample for each rank of the job's present revision that has steps and a
// prediction.
export function samples(job: Job): Sample[] {
  return job.ranks.flatMap((rank) =>
    rank.steps
      .filter((s) => s.revision === job.revision && s.predicted_us > 0 && s.median_us > 0)
      .map((s) => ({
        name: `${jobName(job)}, rank ${rank.rank}`,
        group: job.id,
        predicted: s.predicted_us,
        measured: s.median_us,
      })),
  );
}

export function deviationText(all: Sample[]): string {
  const within = all.filter((s) => Math.abs(ratio(s)) <= kBand).length;
  return (
    `${within} of ${format.counted(all.length, 'rank')} within 3 %. Where a plan counts convolutions only, ` +
    'steps that also do other work take longer.'
  );
}

interface Answer {
  jobs: Job[];
  compared: Job[];
}

export function jobsView(params: URLSearchParams): View<Answer> {
  const table = jobsTable(kNoJobs(), params);
  const chart = new Chart();
  const caption = h('p', { class: 'note' });
  const comparison = section('Measured against predicted', chart.element, caption);
  comparison.hidden = true;
  const ended = new Map<string, Job>(); // these change no more
  const one = async (job: Job, signal: AbortSignal): Promise<Job[]> => {
    const known = ended.get(job.id);
    if (known) return [known];
    try {
      const details = await api.job(job.id, signal);
      if (details.state === 'finished') ended.set(job.id, details);
      return [details];
    } catch (error) {
      // Removed since the list was made.
      if (error instanceof ApiError && error.status === 404) return [];
      throw error;
    }
  };
  return {
    title: 'Jobs',
    element: h('div', {}, heading('Jobs'), table.element, comparison),
    load: async (signal) => {
      const jobs = await api.jobs(kNewest, signal);
      const details = await Promise.all(
        jobs.slice(0, kCompared).map((job) => one(job, signal)),
      );
      return { jobs, compared: details.flat() };
    },
    show: ({ jobs, compared }) => {
      table.show(jobs);
      const all = compared.flatMap(samples);
      comparison.hidden = all.length === 0;
      if (all.length === 0) return;
      chart.show(
        deviation(all),
        `Medians of the newest ${kCompared} jobs; the band is ±3 % around the prediction. One symbol a job.`,
      );
      setText(caption, deviationText(all));
    },
    leave: () => chart.dispose(),
  };
}
