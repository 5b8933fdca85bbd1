// One job: drift, step times, measured against predicted, revisions and ranks.

import { api } from '../api.js';
import { Chart } from '../chart.js';
import { deviation } from '../charts/deviation.js';
import { steps } from '../charts/steps.js';
import { fill, h, setText } from '../dom.js';
import * as format from '../format.js';
import { planned, ranks, terms } from '../requests.js';
import { keepParams, link } from '../route.js';
import { type Column, Table, plain } from '../table.js';
import type { Job, JobRank, JobRevision, StepTimes } from '../types.js';
import type { View } from '../view.js';
import { facts, heading, section, state } from '../view.js';
import { deviationText, jobName, jobState, samples } from './jobs.js';

interface Answer {
  job: Job;
  rank: JobRank | null;
}

function planLink(plan: number): HTMLElement {
  return plan === 0
    ? h('span', {}, 'made elsewhere')
    : h('a', { href: link(['plans', String(plan)]) }, `Plan\u00a0${plan}`);
}

function revisionState(job: Job, revision: JobRevision): HTMLElement {
  if (revision.rejected) return h('span', {}, `✕ rejected: ${revision.rejected}`);
  if (revision.revision === job.revision) return state('running');
  if (revision.adopted_ms > 0) return h('span', {}, 'replaced');
  if (revision.proposed) {
    return h('span', {}, '! proposed: ', h('code', {}, `ucudnn replan ${job.id} --accept`));
  }
  return state('waiting');
}

function revisionTable(): Table<{ job: Job; revision: JobRevision }> {
  return new Table({
    label: 'Revisions',
    noun: 'revision',
    key: (row) => String(row.revision.revision),
    empty: null,
    columns: [
      plain('Revision', (row) => row.revision.revision),
      { title: 'State', cell: ({ job, revision }) =>
          job.state === 'running' || revision.rejected
            ? revisionState(job, revision)
            : h('span', {}, revision.adopted_ms > 0 ? 'was adopted' : 'was not adopted') },
      { title: 'Plan', cell: (row) => planLink(row.revision.plan_id) },
      {
        title: 'Predicted',
        numeric: true,
        cell: ({ job, revision }) => [
          format.time(revision.predicted_us || null),
          job.whole_steps ? null : h('span', { class: 'sub' }, 'convolutions only'),
        ],
      },
      { title: 'Reason', cell: (row) => row.revision.reason || 'the first plan' },
      {
        title: 'Adopted',
        numeric: true,
        cell: (row) => format.dateTime(row.revision.adopted_ms),
      },
    ],
  });
}

function present(job: Job, rank: JobRank): StepTimes | undefined {
  return rank.steps.find((s) => s.revision === job.revision);
}

function rankTable(): Table<{ job: Job; rank: JobRank }> {
  // A number of the steps that a rank made by the job's present revision.
  const ofSteps = (
    title: string,
    value: (s: StepTimes) => number,
    show: (value: number, s: StepTimes) => string,
  ): Column<{ job: Job; rank: JobRank }> => ({
    title,
    numeric: true,
    sort: ({ job, rank }) => {
      const found = present(job, rank);
      return found ? value(found) : 0;
    },
    cell: ({ job, rank }) => {
      const found = present(job, rank);
      return found ? show(value(found), found) : '–';
    },
  });
  return new Table({
    label: 'Ranks',
    noun: 'rank',
    key: (row) => String(row.rank.rank),
    text: ({ rank }) =>
      `${rank.rank} ${rank.host} ${rank.device_id} ${rank.device_kind}`,
    empty: null,
    columns: [
      plain('Rank', (row) => row.rank.rank),
      plain('Host', (row) => row.rank.host),
      {
        title: 'Device',
        sort: (row) => row.rank.device_id,
        cell: (row) => [
          format.shortKind(row.rank.device_kind),
          h('span', { class: 'sub' }, h('code', {}, row.rank.device_id)),
        ],
      },
      ofSteps('Steps', (s) => s.count, format.whole),
      ofSteps('Median', (s) => s.median_us, format.time),
      ofSteps('90 %', (s) => s.p90_us, format.time),
      ofSteps('Predicted', (s) => s.predicted_us, (us) => format.time(us || null)),
      ofSteps(
        'Difference',
        (s) => s.median_us / Math.max(s.predicted_us, 1),
        (ratio, s) => (s.predicted_us > 0 ? format.signedPercent(ratio - 1) : '–'),
      ),
      ofSteps(
        'Against first steps',
        (s) => s.median_us / Math.max(s.first_median_us, 1),
        (ratio, s) => (s.first_median_us > 0 ? format.signedPercent(ratio - 1) : '–'),
      ),
    ],
  });
}

function jobFacts(job: Job): HTMLElement {
  return facts(
    ['State', jobState(job)],
    ['Network', job.request ? `${planned(job.request)}, ${terms(job.request)}` : '–'],
    ['Ranks', job.request ? ranks(job.request) : format.counted(job.ranks.length, 'rank')],
    ['Plan', [planLink(job.plan_id), ` (revision ${job.revision})`]],
    ['From', `${job.source}${job.reason ? `: ${job.reason}` : ''}`],
    ['Begun', format.dateTime(job.created_ms)],
  );
}

export function jobView(id: string, params: URLSearchParams): View<Answer> {
  const title = h('span', {}, 'Job');
  const about = h('div');
  const drift = h('ul', { class: 'reasons' });
  const drifts = section('Drift', drift);
  drifts.classList.add('attention');
  let rank = Number(params.get('rank') ?? 0);
  const rankPick = h('select', {
    'aria-label': 'Rank',
    onchange: () => {
      rank = Number(rankPick.value);
      keepParams({ rank: rank === 0 ? '' : rankPick.value });
      view.again?.();
    },
  });
  const stepChart = new Chart();
  const noSteps = h('p', { class: 'note' }, 'No step has been reported yet.');
  const deviations = new Chart('The band is ±3 % around the prediction.');
  const note = h('p', { class: 'note' });
  const compared = section('Measured against predicted', deviations.element, note);
  const revisions = revisionTable();
  const rankRows = rankTable();
  const view: View<Answer> = {
    title: `Job ${id}`,
    element: h(
      'div',
      {},
      heading(title, h('a', { class: 'back', href: link(['jobs']) }, 'All jobs')),
      h('p', { class: 'sub' }, h('code', {}, id)),
      about,
      drifts,
      section(
        'Step times',
        h('div', { class: 'toolbar' }, rankPick),
        stepChart.element,
        noSteps,
      ),
      compared,
      section('Ranks', rankRows.element),
      section('Revisions', revisions.element),
    ),
    load: async (signal) => {
      const job = await api.job(id, signal);
      const known = job.ranks.some((r) => r.rank === rank);
      return { job, rank: known ? await api.jobRank(id, rank, signal) : null };
    },
    show: ({ job, rank: one }) => {
      setText(title, jobName(job));
      fill(about, jobFacts(job));
      drifts.hidden = job.drift.length === 0;
      fill(drift, ...job.drift.map((text) => h('li', {}, `▲ ${text}`)));
      fill(
        rankPick,
        ...job.ranks.map((r) =>
          h('option', { value: r.rank }, `Rank ${r.rank}, ${r.host || r.device_id}`),
        ),
      );
      rankPick.value = String(rank);
      const ran = (one?.steps ?? []).filter((s) => s.count > 0);
      noSteps.hidden = ran.length > 0;
      stepChart.element.hidden = ran.length === 0;
      if (ran.length > 0) {
        stepChart.show(
          steps(ran, job.whole_steps ? format.kPredictedWhole : format.kPredicted),
          'The first steps of each revision and the latest. Dashed: the predicted time, in its band of ±3 %. Arrows at the top: slower than shown.',
        );
      }
      const all = samples(job);
      compared.hidden = all.length === 0;
      if (all.length > 0) deviations.show(deviation(all));
      setText(note, deviationText(all));
      rankRows.show(job.ranks.map((r) => ({ job, rank: r })));
      revisions.show(job.revisions.map((revision) => ({ job, revision })));
    },
    leave: () => {
      stepChart.dispose();
      deviations.dispose();
    },
  };
  return view;
}
