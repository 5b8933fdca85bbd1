// The desirable configurations of one kernel: time against workspace, with the
// plan's limit and its choice.

import type { Draw } from '../chart.js';
import { axis, itemTooltip, markLine } from '../chart.js';
import { bytes, counted, mark, time } from '../format.js';
import type { FrontPoint } from '../types.js';
import { microBatches } from '../micro_batches.js';

// The axis is logarithmic and begins here: smaller workspaces are drawn at 0.
const kLeast = 16; // 2^16, 64 KiB

export function front(
  points: FrontPoint[],
  limit: number,
): Draw {
  const x = (workspace: number) => Math.max(Math.log2(Math.max(workspace, 1)), kLeast);
  const chosen = points.filter((p) => p.workspace_bytes <= limit).at(-1);
  const largest = points.at(-1)?.workspace_bytes ?? 0;
  const end = Math.ceil(x(Math.max(largest, limit))) + 1;
  return (colors, width) => ({
    height: 280,
    says:
      `${counted(points.length, 'configuration')}, the fastest within the limit of ` +
      `${bytes(limit)} takes ${time(chosen?.time_us)} with ` +
      `${bytes(chosen?.workspace_bytes ?? 0)}`,
    option: {
      grid: { left: 68, right: 24, top: 28, bottom: 48 },
      tooltip: itemTooltip(colors, (index) => {
        const point = points[index];
        if (!point) return '';
        return [
          `${time(point.time_us)} with ${bytes(point.workspace_bytes)}`,
          ...microBatches(point.micro_batches),
        ].join('\n');
      }),
      xAxis: {
        ...axis(colors, 'workspace', 30, (x) => (x <= kLeast ? '0' : bytes(2 ** x))),
        min: kLeast,
        max: end,
        interval: Math.max(1, Math.ceil((end - kLeast) / (width < 480 ? 4 : 9))),
      },
      yAxis: { ...axis(colors, 'time', 52, mark), min: 0 },
      series: [
        {
          type: 'line',
          step: 'end',
          symbol: 'circle',
          symbolSize: (_: unknown, { dataIndex }: { dataIndex: number }) =>
            points[dataIndex] === chosen ? 14 : 7,
          lineStyle: { color: colors.accent, width: 2 },
          itemStyle: { color: colors.accent, borderColor: colors.surface },
          data: points.map((point) => ({
            value: [x(point.workspace_bytes), point.time_us],
            symbol: point === chosen ? 'diamond' : 'circle',
            label: {
              show: point === chosen,
              formatter: 'planned',
              position: point === points[0] ? 'top' : 'left',
              distance: 8,
              color: colors.text,
            },
          })),
          markLine: markLine(
            colors,
            { formatter: `limit ${bytes(limit)}`, position: 'end' },
            limit > 0 ? [{ xAxis: x(limit) }] : [],
          ),
        },
      ],
    },
  });
}
