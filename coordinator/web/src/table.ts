// A table to sort and filter, whose rows stay the same elements while their
// texts change.

import { type Child, fill, h, setText } from './dom.js';
import { ago, counted, whole } from './format.js';
import { keepParams } from './route.js';

export interface Column<T> {
  title: string;
  // What the cell shows.
  cell: (row: T) => Child | Child[];
  // What it is sorted by; absent: the column cannot be sorted.
  sort?: (row: T) => number | string;
  numeric?: boolean;
}

// A column of words or names; a dash where there is none.
export function plain<T>(title: string, value: (row: T) => string | number): Column<T> {
  const cell = (row: T) => (value(row) === '' ? '–' : value(row));
  return { title, sort: value, cell };
}

export function numeric<T, V extends number | null | undefined>(
  title: string,
  value: (row: T) => V,
  show: (value: V) => Child,
): Column<T> {
  const sort = (row: T) => value(row) ?? 0;
  return { title, numeric: true, sort, cell: (row) => show(value(row)) };
}

// Of a Unix time in milliseconds; the newest first.
export function age<T>(title: string, ms: (row: T) => number): Column<T> {
  const sort = (row: T) => -ms(row);
  return { title, numeric: true, sort, cell: (row) => ago(ms(row)) };
}

export interface TableOptions<T> {
  label: string; // for screen readers
  noun: string; // "device", for the count
  columns: Column<T>[];
  key: (row: T) => string;
  // The text that the filter searches; absent: there is no filter.
  text?: (row: T) => string;
  // Further controls beside the filter, and what they leave.
  controls?: HTMLElement;
  keep?: (row: T) => boolean;
  empty: Child; // shown instead of the table without any rows
  // The column and direction to begin with; rows keep their order without.
  sortBy?: { column: number; descending: boolean };
  // Where the address keeps filter and order, for links; absent: nowhere.
  params?: { at: URLSearchParams; prefix: string };
  more?: number; // how many rows are shown at first and added at a time
}

export class Table<T> {
  readonly element: HTMLElement;
  private readonly body = h('tbody');
  private readonly count = h('p', { class: 'count', role: 'status' });
  private readonly frame: HTMLElement;
  private readonly empty: HTMLElement;
  private readonly toolbar: HTMLElement;
  private readonly headers: HTMLTableCellElement[];
  private readonly showMore = h('button', {
    class: 'more',
    type: 'button',
    onclick: () => {
      this.shown += this.options.more ?? 200;
      this.draw();
    },
  });
  private readonly drawn = new Map<string, HTMLTableRowElement>();
  private rows: T[] = [];
  private query: string;
  private sorting: { column: number; descending: boolean } | undefined;
  private shown: number;

  constructor(private readonly options: TableOptions<T>) {
    this.shown = options.more ?? 200;
    this.sorting = options.sortBy;
    this.query = this.restore();
    this.headers = options.columns.map((column, index) =>
      h(
        'th',
        { scope: 'col', class: column.numeric ? 'number' : undefined },
        column.sort
          ? h(
              'button',
              { type: 'button', onclick: () => this.sortBy(index) },
              column.title,
            )
          : column.title,
      ),
    );
    const search = h('input', {
      type: 'search',
      placeholder: `Filter ${options.noun}s`,
      'aria-label': `Filter ${options.noun}s`,
      value: this.query,
      oninput: () => {
        this.query = search.value;
        this.remember();
        this.draw();
      },
    });
    this.toolbar = h(
      'div',
      { class: 'toolbar' },
      options.text && search,
      options.controls,
      this.count,
    );
    this.frame = h(
      'div',
      { class: 'frame', tabindex: 0, role: 'region', 'aria-label': options.label },
      h('table', {}, h('thead', {}, h('tr', {}, ...this.headers)), this.body),
    );
    this.empty = h('div', { class: 'empty' }, options.empty);
    this.element = h(
      'div',
      { class: 'listing' },
      this.toolbar,
      this.frame,
      this.showMore,
      this.empty,
    );
    this.draw();
  }

  show(rows: T[]): void {
    this.rows = rows;
    this.draw();
  }

  private restore(): string {
    const { params, columns } = this.options;
    if (!params) return '';
    const order = params.at.get(`${params.prefix}sort`) ?? '';
    const column = columns.findIndex(
      (c) => c.sort && c.title === order.replace(/^-/, ''),
    );
    if (column >= 0) this.sorting = { column, descending: order.startsWith('-') };
    return params.at.get(`${params.prefix}q`) ?? '';
  }

  private remember(): void {
    const { params, columns } = this.options;
    if (!params) return;
    const title = this.sorting && columns[this.sorting.column]?.title;
    keepParams({
      [`${params.prefix}q`]: this.query,
      [`${params.prefix}sort`]: title
        ? (this.sorting?.descending ? '-' : '') + title
        : '',
    });
  }

  private sortBy(column: number): void {
    const descending = this.sorting?.column === column && !this.sorting.descending;
    this.sorting = { column, descending };
    this.remember();
    this.draw();
  }

  private matching(): T[] {
    const { text, keep } = this.options;
    const words = this.query.toLowerCase().split(/\s+/).filter(Boolean);
    return this.rows.filter((row) => {
      if (keep && !keep(row)) return false;
      if (!text || words.length === 0) return true;
      const haystack = text(row).toLowerCase();
      return words.every((word) => haystack.includes(word));
    });
  }

  private sorted(rows: T[]): T[] {
    const value = this.sorting && this.options.columns[this.sorting.column]?.sort;
    if (!value || !this.sorting) return rows;
    const sign = this.sorting.descending ? -1 : 1;
    return rows
      .map((row) => ({ row, by: value(row) }))
      .sort((a, b) =>
        typeof a.by === 'number' && typeof b.by === 'number'
          ? sign * (a.by - b.by)
          : sign * String(a.by).localeCompare(String(b.by), 'en', { numeric: true }),
      )
      .map(({ row }) => row);
  }

  // Draws again, as after a change of the `controls`.
  draw(): void {
    const { options } = this;
    const rows = this.sorted(this.matching());
    const any = this.rows.length > 0;
    this.empty.hidden = any;
    this.frame.hidden = !any;
    this.toolbar.hidden = !any || !(options.text || options.controls);
    setText(
      this.count,
      rows.length === this.rows.length
        ? counted(rows.length, options.noun)
        : `${whole(rows.length)} of ${counted(this.rows.length, options.noun)}`,
    );
    this.headers.forEach((header, index) => {
      if (!options.columns[index]?.sort) return;
      const on = this.sorting?.column === index;
      header.setAttribute(
        'aria-sort',
        !on ? 'none' : this.sorting?.descending ? 'descending' : 'ascending',
      );
    });
    const visible = rows.slice(0, this.shown);
    this.showMore.hidden = visible.length === rows.length;
    setText(
      this.showMore,
      `Show ${whole(Math.min(options.more ?? 200, rows.length - visible.length))} more`,
    );
    this.place(visible);
  }

  private place(rows: T[]): void {
    const keep = new Set<string>();
    let after: Element | null = null;
    for (const row of rows) {
      const key = this.options.key(row);
      keep.add(key);
      const line = this.drawn.get(key) ?? this.newRow(key);
      this.options.columns.forEach((column, index) => {
        const content = column.cell(row);
        const cell = line.cells[index];
        if (!cell) return;
        fill(cell, ...(Array.isArray(content) ? content : [content]));
        // Cards leave it out.
        cell.classList.toggle('none', cell.textContent === '–');
      });
      const next: Element | null = after
        ? after.nextElementSibling
        : this.body.firstElementChild;
      if (next !== line) this.body.insertBefore(line, next);
      after = line;
    }
    for (const [key, line] of this.drawn) {
      if (keep.has(key)) continue;
      line.remove();
      this.drawn.delete(key);
    }
  }

  private newRow(key: string): HTMLTableRowElement {
    const line = h(
      'tr',
      {},
      ...this.options.columns.map((column) =>
        h('td', {
          class: column.numeric ? 'number' : undefined,
          'data-title': column.title,
        }),
      ),
    );
    this.drawn.set(key, line);
    return line;
  }
}
