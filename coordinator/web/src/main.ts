// The page: its frame, and the view that the address names.

import './trusted.js';

import { api, type ApiError } from './api.js';
import { fill, h, setText } from './dom.js';
import { learnPort } from './endpoint.js';
import { clock } from './format.js';
import type { Health } from './live.js';
import { Live } from './live.js';
import type { Route } from './route.js';
import { link, parse } from './route.js';
import type { View } from './view.js';
import { heading } from './view.js';
import { campaignsView } from './views/campaigns.js';
import { devicesView } from './views/devices.js';
import { jobView } from './views/job.js';
import { jobsView } from './views/jobs.js';
import { historyView, networksView, nodesView } from './views/lists.js';
import { overviewView } from './views/overview.js';
import { planView } from './views/plan.js';
import { plansView } from './views/plans.js';

const kSections: [string, string][] = [
  ['', 'Overview'],
  ['devices', 'Devices'],
  ['nodes', 'Nodes'],
  ['networks', 'Networks'],
  ['campaigns', 'Campaigns'],
  ['plans', 'Plans'],
  ['jobs', 'Jobs'],
  ['history', 'History'],
];

function viewOf({ path, params }: Route): View<unknown> | null {
  const [name = '', id] = path;
  if (path.length > 2) return null;
  if (id !== undefined) {
    if (name === 'plans') return planView(id, params);
    if (name === 'jobs') return jobView(id, params);
    return null;
  }
  switch (name) {
    case '':
      return overviewView();
    case 'devices':
      return devicesView(params);
    case 'nodes':
      return nodesView(params);
    case 'networks':
      return networksView(params);
    case 'history':
      return historyView(params);
    case 'campaigns':
      return campaignsView();
    case 'plans':
      return plansView(params);
    case 'jobs':
      return jobsView(params);
    default:
      return null;
  }
}

const main = h('main', { id: 'main' });
const links = kSections.map(([path, title]) =>
  h('a', { href: link(path ? [path] : []) }, title),
);
const pulse = h('p', { class: 'pulse', role: 'status' });
const away = h('div', { class: 'away', role: 'alert', hidden: true });
const footer = h('footer');

let view: View<unknown> | null = null;
let live: Live<unknown> | null = null;

function tell(health: Health): void {
  const alive = health.failure === '';
  away.hidden = alive;
  document.body.classList.toggle('stale', !alive);
  setText(pulse, alive ? 'Live' : 'Away');
  pulse.className = `pulse ${alive ? 'live' : 'dead'}`;
  if (alive) return;
  const since =
    health.answeredMs > 0 ? ` What you see is from ${clock(health.answeredMs)}.` : '';
  fill(
    away,
    h(
      'p',
      {},
      h('strong', {}, 'No news from the coordinator'),
      `: ${health.failure}.${since} The page keeps asking.`,
    ),
    h('button', { type: 'button', onclick: () => live?.retry() }, 'Ask now'),
  );
}

function refused(error: ApiError): void {
  const found = error.status !== 404;
  const title = found ? 'The coordinator refused' : 'Not found';
  const back = kSections.find(([path]) => path === parse(location.hash).path[0]);
  main.replaceChildren(
    h(
      'div',
      {},
      heading(title),
      h('p', {}, error.message),
      h(
        'p',
        {},
        h('a', { href: link(back?.[0] ? [back[0]] : []) }, `Go to ${back?.[1] ?? 'Overview'}`),
      ),
    ),
  );
  document.title = `${title} · ucudnn`;
}

function show(): void {
  const route = parse(location.hash);
  live?.stop();
  view?.leave?.();
  live = null;
  view = viewOf(route);
  links.forEach((anchor, index) => {
    if (kSections[index]?.[0] === (route.path[0] ?? '')) {
      anchor.setAttribute('aria-current', 'page');
    } else {
      anchor.removeAttribute('aria-current');
    }
  });
  if (!view) {
    main.replaceChildren(
      heading('Not found'),
      h('p', {}, 'This page has no such part.'),
      h('p', {}, h('a', { href: link([]) }, 'Go to Overview')),
    );
    document.title = 'Not found · ucudnn';
    return;
  }
  const shown = view;
  const { element } = shown;
  document.title = `${shown.title} · ucudnn`;
  element.classList.add('view', 'loading');
  main.replaceChildren(element);
  live = new Live(
    (signal) => shown.load(signal),
    (answer) => {
      element.classList.remove('loading');
      shown.show(answer);
    },
    refused,
    tell,
  );
  shown.again = () => live?.retry();
}

// A new view begins at its top, for the eyes and for the keyboard.
function navigate(): void {
  show();
  window.scrollTo(0, 0);
  main.querySelector('h1')?.focus({ preventScroll: true });
}

function frame(): void {
  document.body.append(
    h(
      'a',
      {
        class: 'skip',
        href: '#main',
        onclick: (event: Event) => {
          event.preventDefault(); // '#main' is no view
          main.querySelector('h1')?.focus();
        },
      },
      'Skip to content',
    ),
    h(
      'header',
      { class: 'top' },
      h('a', { class: 'name', href: link([]) }, 'ucudnn'),
      h('nav', { 'aria-label': 'Views' }, ...links),
      pulse,
    ),
    away,
    main,
    footer,
  );
}

async function about(): Promise<void> {
  let version = 'ucudnn';
  try {
    const status = await api.status(new AbortController().signal);
    version = `ucudnn ${status.version}, ${status.database}`;
    learnPort(status.grpc_port);
  } catch {
    // The banner tells that the coordinator is away.
  }
  fill(footer, h('span', {}, version), h('a', { href: 'licences.txt' }, 'Licences'));
}

frame();
window.addEventListener('hashchange', navigate);
void about().then(show);
