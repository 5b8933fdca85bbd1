// A chart in a figure, in the colours of the page and of its size.

import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  DataZoomComponent,
  GridComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
} from 'echarts/components';
import * as echarts from 'echarts/core';
import type { EChartsCoreOption } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';

import { h, setText } from './dom.js';

echarts.use([
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomComponent,
  GridComponent,
  LineChart,
  MarkAreaComponent,
  MarkLineComponent,
  ScatterChart,
  TooltipComponent,
]);

// The page's colours now, light or dark.
export interface Colors {
  text: string;
  muted: string;
  line: string;
  surface: string;
  accent: string;
  faint: string;
  second: string;
  third: string;
  font: string;
}

function colors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of('text'),
    muted: of('muted'),
    line: of('line'),
    surface: of('surface'),
    accent: of('accent'),
    faint: of('faint'),
    second: of('second'),
    third: of('third'),
    font: style.fontFamily,
  };
}

export interface Drawing {
  option: EChartsCoreOption;
  height: number; // in pixels
  says: string; // the same in words, for whoever does not see it
}

export type Draw = (colors: Colors, width: number) => Drawing;

export class Chart {
  readonly element: HTMLElement;
  private readonly box = h('div', { class: 'chart', role: 'img' });
  private readonly caption = h('figcaption');
  private readonly chart: echarts.ECharts;
  private readonly observer: ResizeObserver;
  private readonly dark = matchMedia('(prefers-color-scheme: dark)');
  private readonly still = matchMedia('(prefers-reduced-motion: reduce)');
  private draw: Draw | undefined;
  private drawn = '';

  constructor(caption = '') {
    setText(this.caption, caption);
    this.element = h('figure', {}, this.box, this.caption);
    this.box.style.height = '240px';
    this.chart = echarts.init(this.box, null, { renderer: 'canvas', height: 240, width: 320 });
    this.observer = new ResizeObserver(() => this.render());
    this.observer.observe(this.box);
    this.dark.addEventListener('change', this.redraw);
  }

  // Shows what `draw` returns, now and whenever size or colours change.
  show(draw: Draw, caption?: string): void {
    this.draw = draw;
    if (caption !== undefined) setText(this.caption, caption);
    this.render();
  }

  onClick(listener: (name: string) => void): void {
    this.chart.on('click', (event) => listener(event.name));
  }

  dispose(): void {
    this.observer.disconnect();
    this.dark.removeEventListener('change', this.redraw);
    this.chart.dispose();
  }

  private readonly redraw = () => this.render();

  private render(): void {
    const width = this.box.clientWidth;
    if (!this.draw || width === 0) return;
    const palette = colors();
    const { option, height, says } = this.draw(palette, width);
    // Polls mostly bring the same again: whoever points at a value keeps it.
    const fresh = JSON.stringify([option, height, width, palette]);
    if (fresh === this.drawn) return;
    this.drawn = fresh;
    this.box.setAttribute('aria-label', says);
    this.box.style.height = `${height}px`;
    this.chart.resize({ width, height });
    this.chart.setOption(
      {
        animation: !this.still.matches,
        animationDuration: 200,
        textStyle: { fontFamily: palette.font, color: palette.text },
        ...option,
      },
      { notMerge: true },
    );
  }
}

// Parts that all charts share.
export function tooltip(palette: Colors): object {
  return {
    renderMode: 'richText', // names stay texts: nothing becomes markup
    confine: true,
    backgroundColor: palette.surface,
    borderColor: palette.line,
    textStyle: { color: palette.text, fontSize: 12, fontFamily: palette.font },
  };
}

// The tooltip of what is pointed at, an element of the series' data.
export function itemTooltip(palette: Colors, text: (index: number) => string): object {
  return {
    ...tooltip(palette),
    trigger: 'item',
    formatter: ({ dataIndex }: { dataIndex: number }) => text(dataIndex),
  };
}

// An axis of numbers; `label` is more about its marks.
export function axis(
  palette: Colors,
  name: string,
  nameGap: number,
  format?: (value: number) => string,
  label: object = {},
): object {
  return {
    name,
    nameGap,
    nameLocation: 'middle',
    nameTextStyle: { color: palette.muted, fontSize: 12 },
    type: 'value',
    axisLabel: {
      color: palette.muted,
      hideOverlap: true,
      ...(format && { formatter: format }),
      ...label,
    },
    axisLine: { lineStyle: { color: palette.line } },
    splitLine: { lineStyle: { color: palette.line, opacity: 0.6 } },
  };
}

// A dashed line across a chart, with a word on it.
export function markLine(palette: Colors, label: object, data: object[]): object {
  return {
    silent: true,
    symbol: 'none',
    lineStyle: { color: palette.text, type: 'dashed' },
    label: { color: palette.text, ...label },
    data,
  };
}
