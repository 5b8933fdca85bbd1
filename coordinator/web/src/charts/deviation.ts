// Measured against predicted: by how much steps differ from the prediction, and
// the band of three percent that plans are held to.

import type { Draw } from '../chart.js';
import { axis, itemTooltip } from '../chart.js';
import { counted, mark, signedPercent, time } from '../format.js';

export interface Sample {
  name: string;
  group: string; // what shares a symbol, such as a job
  predicted: number; // microseconds
  measured: number;
}

export const kBand = 0.03;
// Beyond these the symbol is an arrow at the edge, with its number.
const kEdge = 0.3;

const kSymbols = ['circle', 'rect', 'diamond', 'roundRect', 'pin'];

export function ratio(sample: Sample): number {
  return sample.measured / sample.predicted - 1;
}

export function deviation(
  samples: Sample[],
): Draw {
  const groups = [...new Set(samples.map((s) => s.group))];
  const within = samples.filter((s) => Math.abs(ratio(s)) <= kBand).length;
  const furthest = Math.max(kBand * 2, ...samples.map((s) => Math.abs(ratio(s))));
  const edge = Math.min(kEdge, furthest * 1.2);
  return (colors, width) => ({
    height: 260,
    says:
      `${within} of ${counted(samples.length, 'rank')} within 3 % of the ` +
      `prediction: ` +
      samples
        .slice(0, 20)
        .map((s) => `${s.name} ${signedPercent(ratio(s))}`)
        .join(', '),
    option: {
      grid: { left: 68, right: 56, top: 16, bottom: 48 },
      tooltip: itemTooltip(colors, (index) => {
        const s = samples[index];
        if (!s) return '';
        return (
          `${s.name}\nmeasured ${time(s.measured)}, predicted ` +
          `${time(s.predicted)}, ${signedPercent(ratio(s))}`
        );
      }),
      xAxis: {
        ...axis(colors, 'predicted', 30, mark),
        scale: true,
        boundaryGap: ['10%', '10%'],
        splitNumber: width < 480 ? 3 : 6,
      },
      yAxis: {
        ...axis(
          colors,
          'measured − predicted',
          52,
          (value) => signedPercent(value).replace('.0', ''),
          { showMinLabel: false, showMaxLabel: false },
        ),
        min: -edge,
        max: edge,
      },
      series: [
        {
          type: 'scatter',
          symbolSize: 11,
          labelLayout: { hideOverlap: true }, // the tooltip has each
          itemStyle: {
            color: colors.accent,
            borderColor: colors.surface,
            borderWidth: 1,
          },
          data: samples.map((s) => {
            const value = ratio(s);
            const outside = Math.abs(value) > edge;
            return {
              name: s.name,
              value: [s.predicted, Math.max(-edge, Math.min(edge, value))],
              symbol: outside
                ? 'triangle'
                : kSymbols[groups.indexOf(s.group) % kSymbols.length],
              symbolRotate: value < 0 ? 180 : 0,
              label: {
                show: outside,
                position: value < 0 ? 'top' : 'bottom',
                formatter: signedPercent(value),
                color: colors.text,
              },
            };
          }),
          markArea: {
            silent: true,
            itemStyle: { color: colors.accent, opacity: 0.12 },
            data: [[{ yAxis: -kBand }, { yAxis: kBand }]],
          },
          markLine: {
            silent: true,
            symbol: 'none',
            lineStyle: { color: colors.muted, type: 'dashed' },
            label: {
              color: colors.text,
              formatter: '',
            },
            data: [
              { yAxis: kBand },
              // One label for the band: three would run into each other.
              { yAxis: 0, lineStyle: { type: 'solid' }, label: { formatter: '±3 %' } },
              { yAxis: -kBand },
            ],
          },
        },
      ],
    },
  });
}
