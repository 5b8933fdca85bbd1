// Times as bars: the undivided batch as an outline behind, the plan before it.

import type { Draw } from '../chart.js';
import { axis, tooltip } from '../chart.js';
import { factor, mark, time } from '../format.js';

export interface Bar {
  name: string; // unique
  label: string;
  planned: number; // microseconds
  undivided: number | null;
}

const kRowHeight = 34;
const kMaxRows = 24;

export function bars(rows: Bar[]): Draw {
  return (colors, width) => {
    const height = Math.min(rows.length, kMaxRows) * kRowHeight + 60;
    const longest = Math.max(...rows.map((bar) => bar.label.length));
    const labels = Math.min(width * 0.42, 7 * longest + 20);
    const numbers = width < 480 ? 90 : 190;
    const text = (bar: Bar) =>
      bar.undivided === null || numbers < 100
        ? time(bar.planned)
        : `${time(bar.planned)} of ${time(bar.undivided)}`;
    const shared = { type: 'bar', cursor: 'pointer', silent: false };
    return {
      height,
      says: rows
        .map(
          (bar) =>
            `${bar.label}: planned ${time(bar.planned)}, undivided ${time(bar.undivided)}`,
        )
        .join('; '),
      option: {
        grid: { left: labels, right: numbers, top: 8, bottom: 44 },
        tooltip: {
          ...tooltip(colors),
          trigger: 'axis',
          axisPointer: { type: 'shadow', shadowStyle: { opacity: 0.15 } },
          formatter: (items: { dataIndex: number }[]) => {
            const bar = rows[items[0]?.dataIndex ?? 0];
            if (!bar) return '';
            const gain = bar.undivided && bar.planned > 0
              ? `\nundivided ${time(bar.undivided)}, ${factor(bar.undivided / bar.planned)}`
              : '';
            return `${bar.label}\nplanned ${time(bar.planned)}${gain}`;
          },
        },
        dataZoom:
          rows.length > kMaxRows
            ? [
                {
                  type: 'slider',
                  yAxisIndex: 0,
                  startValue: 0,
                  endValue: kMaxRows - 1,
                  width: 14,
                  right: 2,
                  showDetail: false,
                  brushSelect: false,
                },
              ]
            : [],
        xAxis: {
          ...axis(colors, 'time', 26, mark),
          splitNumber: width < 480 ? 2 : 5,
        },
        yAxis: {
          type: 'category',
          inverse: true,
          data: rows.map((bar) => bar.name),
          axisTick: { show: false },
          axisLine: { lineStyle: { color: colors.line } },
          axisLabel: {
            color: colors.text,
            width: labels - 14,
            overflow: 'truncate',
            formatter: (name: string) =>
              rows.find((bar) => bar.name === name)?.label ?? name,
          },
        },
        series: [
          {
            ...shared,
            name: 'undivided',
            barWidth: 20,
            barGap: '-100%',
            z: 1,
            itemStyle: {
              color: colors.faint,
              borderColor: colors.muted,
              borderWidth: 1,
              borderType: 'dashed',
            },
            data: rows.map((bar) => bar.undivided ?? '-'),
          },
          {
            ...shared,
            name: 'planned',
            barWidth: 20,
            barGap: '-100%',
            z: 2,
            // Narrower than its band, so that the outline shows around it.
            itemStyle: {
              color: colors.accent,
              borderColor: 'transparent',
              borderWidth: 0,
              borderRadius: 1,
            },
            data: rows.map((bar) => bar.planned),
          },
          {
            // The numbers, at the end of the longer bar.
            type: 'bar',
            silent: true,
            barWidth: 20,
            barGap: '-100%',
            z: 3,
            itemStyle: { color: 'transparent' },
            label: {
              show: true,
              position: 'right',
              color: colors.text,
              fontSize: 12,
              formatter: ({ dataIndex }: { dataIndex: number }) => {
                const bar = rows[dataIndex];
                return bar ? text(bar) : '';
              },
            },
            data: rows.map((bar) => Math.max(bar.planned, bar.undivided ?? 0)),
          },
        ],
      },
    };
  };
}
