// What every view of the page is.

import type { Child } from './dom.js';
import { h } from './dom.js';

export interface View<T> {
  title: string;
  element: HTMLElement;
  // All that the view shows, asked anew every few seconds.
  load(signal: AbortSignal): Promise<T>;
  show(answer: T): void;
  // Called when another view follows.
  leave?(): void;
  // Asks anew at once; set by whoever shows the view.
  again?: () => void;
}

export function heading(title: Child, ...beside: Child[]): HTMLElement {
  return h(
    'header',
    { class: 'heading' },
    h('h1', { tabindex: -1 }, title),
    ...beside,
  );
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return h('section', {}, h('h2', {}, title), ...children);
}

// What to do next where there is nothing to show: a sentence and commands.
export function nothing(text: string, ...commands: string[]): HTMLElement {
  return h(
    'div',
    {},
    h('p', {}, text),
    ...commands.map((command) => h('pre', { tabindex: 0 }, h('code', {}, command))),
  );
}

// Facts as a list of names and values.
export function facts(...pairs: [string, Child | Child[]][]): HTMLElement {
  return h(
    'dl',
    { class: 'facts' },
    ...pairs.map(([name, value]) =>
      h(
        'div',
        {},
        h('dt', {}, name),
        h('dd', {}, ...(Array.isArray(value) ? value : [value])),
      ),
    ),
  );
}

// Signs beside words, so that nothing depends on colour.
const kSigns: Record<string, string> = {
  idle: '○',
  measuring: '◐',
  busy: '■',
  cordoned: '‖',
  draining: '‖',
  lost: '✕',
  running: '◐',
  finished: '✓',
  done: '✓',
  waiting: '!',
  failed: '✕',
  drift: '▲',
  online: '○',
  gone: '✕',
};

export function state(name: string): HTMLElement {
  return h(
    'span',
    { class: `state ${/^[a-z]+$/.test(name) ? name : ''}` },
    h('span', { class: 'sign', 'aria-hidden': 'true' }, kSigns[name] ?? '·'),
    name,
  );
}
