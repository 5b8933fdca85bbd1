// The first view: what there is, what needs attention, and what goes on.

import { api } from '../api.js';
import { machines } from '../devices.js';
import type { Machine } from '../devices.js';
import { fill, h } from '../dom.js';
import type { Child } from '../dom.js';
import { coordinator } from '../endpoint.js';
import * as format from '../format.js';
import { link } from '../route.js';
import type { Campaign, Job, Plan, Status } from '../types.js';
import type { View } from '../view.js';
import { heading, nothing, section } from '../view.js';
import { campaignsTable } from './campaigns.js';
import { jobName, jobsTable, kNoJobs } from './jobs.js';
import { kNoPlans, plansTable } from './plans.js';

const kListed = 5;
const kJobs = 100; // the newest that are looked at

interface Answer {
  status: Status;
  machines: Machine[];
  campaigns: Campaign[];
  plans: Plan[];
  jobs: Job[];
}

function tile(title: string, path: string, number: string, detail: string): HTMLElement {
  return h(
    'a',
    { class: 'tile', href: link([path]) },
    h('span', { class: 'title' }, title),
    h('span', { class: 'figure' }, number),
    h('span', { class: 'sub' }, detail),
  );
}

// "500 or more" where no more were asked for.
function upTo(count: number, most: number): string {
  return count < most ? format.whole(count) : `${format.whole(count)} or more`;
}

function tiles({ status, machines: all, campaigns, plans, jobs }: Answer): HTMLElement[] {
  const measuring = all.filter((m) => m.state === 'measuring').length;
  const busy = all.filter((m) => m.state === 'busy').length;
  const open = campaigns.filter((c) => c.state === 'running');
  const running = jobs.filter((job) => job.state === 'running').length;
  const waiting = status.tasks_pending + status.tasks_running;
  return [
    tile(
      'Devices',
      'devices',
      `${format.whole(status.devices_online)} of ${format.whole(all.length)}`,
      `online; ${format.whole(measuring)} measuring, ${format.whole(busy)} busy, ` +
        `${format.whole(all.filter(isHeld).length)} cordoned`,
    ),
    tile(
      'Campaigns',
      'campaigns',
      format.whole(open.length),
      `running; ${format.counted(waiting, 'measurement')} to do`,
    ),
    tile('Plans', 'plans', upTo(plans.length, api.plans.most), `of ${format.counted(status.networks, 'network')}`),
    tile('Jobs', 'jobs', format.whole(running), jobs.length > 0 ? `running, of ${upTo(jobs.length, kJobs)}` : 'running'),
  ];
}

function isHeld({ state }: Machine): boolean {
  return state === 'cordoned' || state === 'draining';
}

// What someone should look at, worst first.
function attention({ status, machines: all, campaigns, jobs }: Answer): HTMLElement[] {
  const items: HTMLElement[] = [];
  const item = (path: string[], params: Record<string, string>, ...text: Child[]) =>
    items.push(h('li', {}, h('a', { href: link(path, params) }, ...text)));
  const lostJobs = jobs.filter((job) => job.state === 'lost');
  for (const job of lostJobs.slice(0, kListed)) {
    item(['jobs', job.id], {}, `✕ ${jobName(job)} is lost: last heard of ${format.ago(job.updated_ms)}`);
  }
  const proposed = jobs.filter((job) => job.state === 'running' && job.proposed_revision > 0);
  for (const job of proposed.slice(0, kListed)) {
    item(['jobs', job.id], {}, `! ${jobName(job)} has a proposed plan: revision ${job.proposed_revision}`);
  }
  const lost = all.filter((m) => m.state === 'lost').length;
  if (lost > 0) {
    item(
      ['devices'],
      { state: 'lost' },
      `✕ ${format.counted(lost, 'device is', 'devices are')} lost`,
    );
  }
  const working = all.filter((m) => m.state !== 'lost' && !isHeld(m)).length;
  if (working === 0 && all.some(isHeld)) {
    item(['devices'], {}, '‖ All devices are cordoned or draining: nothing is measured');
  }
  for (const campaign of campaigns) {
    if (campaign.state === 'running' && campaign.kinds_without_device.length > 0) {
      item(
        ['campaigns'],
        {},
        `! The plan for ${campaign.request.network} waits for a device of kind ` +
          campaign.kinds_without_device.map(format.shortKind).join(', '),
      );
    }
  }
  if (status.tasks_failed > 0) {
    item(['campaigns'], {}, `✕ ${format.counted(status.tasks_failed, 'measurement')} failed`);
  }
  const deviating = all.filter((m) => m.device.comparison?.deviates);
  for (const { device } of deviating.slice(0, kListed)) {
    item(
      ['devices'],
      { q: device.id },
      `▲ ${device.id} deviates from its kind by ` +
        format.signedPercent((device.comparison?.relative_time ?? 1) - 1),
    );
  }
  return items;
}

// The four steps from nothing to a job, for whoever begins.
function firstSteps(answer: Answer): HTMLElement {
  const steps: [string, boolean, string][] = [
    [
      'Start an agent on a node',
      answer.machines.length > 0,
      `ucudnn-agent ${coordinator('agent')}`,
    ],
    [
      'Name a network',
      answer.status.networks > 0,
      'ucudnn networks put NAME FILE.onnx',
    ],
    [
      'Ask for a plan; what it needs is measured',
      answer.plans.length > 0,
      'ucudnn plan --network NAME --batch 256 --workspace-limit 64MiB',
    ],
    [
      'Run a job that applies it',
      answer.jobs.length > 0,
      `mpirun -np 2 ucudnn-train ${coordinator('job')} --network FILE.onnx --batch 256 --memory-budget 6GiB,2GiB`,
    ],
  ];
  return h(
    'ol',
    { class: 'steps' },
    ...steps.map(([title, done, command]) =>
      h(
        'li',
        { class: done ? 'done' : undefined },
        h('span', {}, done ? `✓ ${title}` : title),
        done ? null : h('pre', { tabindex: 0 }, h('code', {}, command)),
      ),
    ),
  );
}

export function overviewView(): View<Answer> {
  const figures = h('nav', { class: 'tiles', 'aria-label': 'Figures' });
  const concerns = h('ul', { class: 'reasons' });
  const look = section('Needs attention', concerns);
  look.classList.add('attention');
  const steps = h('div');
  const begin = section('First steps', steps);
  const campaigns = campaignsTable(nothing('No campaign is running.'), true);
  const plans = plansTable(kNoPlans());
  const jobs = jobsTable(kNoJobs());
  const measuring = section('Running campaigns', campaigns.element);
  const newest = section('Newest plans', plans.element);
  const running = section('Newest jobs', jobs.element);
  return {
    title: 'Overview',
    element: h('div', {}, heading('Overview'), figures, look, begin, measuring, running, newest),
    load: async (signal) => {
      const [status, devices, agents, campaignList, planList, jobList] =
        await Promise.all([
          api.status(signal),
          api.devices(signal),
          api.agents(signal),
          api.campaigns(signal),
          api.plans.load(signal),
          api.jobs(kJobs, signal),
        ]);
      return {
        status,
        machines: machines(devices, agents),
        campaigns: campaignList,
        plans: planList,
        jobs: jobList,
      };
    },
    show: (answer) => {
      fill(figures, ...tiles(answer));
      const items = attention(answer);
      look.hidden = items.length === 0;
      fill(concerns, ...items);
      const begun =
        answer.machines.length > 0 && answer.plans.length > 0 && answer.jobs.length > 0;
      begin.hidden = begun;
      if (!begun) fill(steps, firstSteps(answer));
      const open = answer.campaigns.filter((c) => c.state === 'running');
      campaigns.show(open);
      measuring.hidden = open.length === 0;
      plans.show(answer.plans.slice(0, kListed));
      newest.hidden = answer.plans.length === 0;
      jobs.show(answer.jobs.slice(0, kListed));
      running.hidden = answer.jobs.length === 0;
    },
  };
}
