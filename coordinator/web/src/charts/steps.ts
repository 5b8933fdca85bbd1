// The step times of one rank, revision after revision: of each, the first steps
// and the latest, with the time that the plan predicts.

import type { Draw } from '../chart.js';
import { axis, markLine, tooltip } from '../chart.js';
import { counted, mark, time, whole } from '../format.js';
import type { StepTimes } from '../types.js';
import { kBand } from './deviation.js';

// Times beyond this many medians are cut off.
const kTop = 3;
const kSymbols = ['circle', 'rect', 'diamond', 'roundRect']; // triangles: cut off

// Step number and time; null between the first and the latest, where steps are
// not kept.
export function series(steps: StepTimes, before: number): ([number, number] | null)[] {
  const early: ([number, number] | null)[] = steps.first_us.map((us, i) => [
    before + i + 1,
    us,
  ]);
  const from = before + steps.count - steps.latest_us.length;
  const late = steps.latest_us.map((us, i): [number, number] => [from + i + 1, us]);
  const gap = steps.count > steps.first_us.length + steps.latest_us.length;
  return [...early, ...(gap ? [null] : []), ...late];
}

export function steps(
  revisions: StepTimes[],
  predicted: string,
): Draw {
  let total = 0;
  const starts = revisions.map((r) => {
    const before = total;
    total += r.count;
    return before;
  });
  // A few slow steps must not make all others a line: they are arrows at the top.
  const usual = Math.max(...revisions.map((r) => Math.max(r.median_us, r.predicted_us)));
  const slowest = Math.max(...revisions.flatMap((r) => [...r.first_us, ...r.latest_us]));
  const top = Math.min(1.1 * slowest, kTop * usual);
  return (colors) => ({
    height: 300,
    says: revisions
      .map(
        (r) =>
          `revision ${r.revision}: ${counted(r.count, 'step')}, median ` +
          `${time(r.median_us)}, ${predicted.toLowerCase()} ${time(r.predicted_us)}`,
      )
      .join('; '),
    option: {
      grid: { left: 68, right: 24, top: 28, bottom: 48 },
      tooltip: {
        ...tooltip(colors),
        trigger: 'item',
        formatter: ({ value, seriesName }: { value: number[]; seriesName: string }) =>
          `${seriesName}\nstep ${whole(value[0] ?? 0)}: ${time(value[2])}`,
      },
      xAxis: {
        ...axis(colors, 'step', 30),
        min: 0,
        max: Math.max(total, 1),
        minInterval: 1,
      },
      yAxis: {
        ...axis(colors, 'time of a step', 52, mark, { showMaxLabel: false }),
        min: 0,
        max: top,
      },
      series: revisions.map((r, index) => {
        const before = starts[index] ?? 0;
        const span = [before + 1, before + Math.max(r.count, 1)];
        return {
          type: 'line',
          name: `revision ${r.revision}`,
          symbol: kSymbols[index % kSymbols.length],
          symbolSize: 5,
          showAllSymbol: true,
          connectNulls: false,
          lineStyle: { color: colors.accent, width: 1, opacity: 0.5 },
          itemStyle: { color: colors.accent },
          data: series(r, before).map((step) =>
            step === null
              ? null
              : {
                  value: [step[0], Math.min(step[1], top), step[1]],
                  ...(step[1] > top ? { symbol: 'triangle', symbolSize: 10 } : {}),
                },
          ),
          markLine: markLine(
            colors,
            {
              // Those of several revisions would run into each other.
              show: index === revisions.length - 1,
              position: 'insideEndTop',
              formatter: `${predicted.toLowerCase()} ${time(r.predicted_us)}`,
            },
            r.predicted_us > 0
              ? [
                  [
                    { coord: [span[0], r.predicted_us] },
                    { coord: [span[1], r.predicted_us] },
                  ],
                ]
              : [],
          ),
          markArea: {
            silent: true,
            itemStyle: { color: colors.accent, opacity: 0.12 },
            data:
              r.predicted_us > 0
                ? [
                    [
                      { coord: [span[0], r.predicted_us * (1 - kBand)] },
                      { coord: [span[1], r.predicted_us * (1 + kBand)] },
                    ],
                  ]
                : [],
          },
        };
      }),
    },
  });
}
