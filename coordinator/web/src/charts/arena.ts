// The workspace arena of a rank over one iteration: each kernel's workspace as
// a rectangle from its offset up, for as long as the kernel runs. Kernels run
// forward through the network, then backward through it.

import type {
  CustomSeriesRenderItemAPI,
  CustomSeriesRenderItemParams,
} from 'echarts';

import type { Draw } from '../chart.js';
import { axis, itemTooltip, markLine } from '../chart.js';
import { bytes, counted, mark, operation, time } from '../format.js';
import type { KernelPlan, WorkspacePlan } from '../types.js';
import { microBatches } from '../micro_batches.js';

interface Block {
  kernel: KernelPlan;
  start: number;
  end: number;
  bottom: number;
  top: number;
}

const kLetters: Record<string, string> = {
  forward: 'F',
  backward_data: 'D',
  backward_filter: 'W',
};

// In the order in which an iteration runs them.
export function inOrder(kernels: KernelPlan[]): KernelPlan[] {
  const layers = [...new Set(kernels.map((k) => k.layer))];
  const at = new Map(layers.map((layer, index) => [layer, index]));
  const place = (k: KernelPlan) => at.get(k.layer) ?? 0;
  const forward = kernels.filter((k) => k.op === 'forward');
  const backward = kernels.filter((k) => k.op !== 'forward');
  return [
    ...forward.sort((a, b) => place(a) - place(b)),
    ...backward.sort((a, b) => place(b) - place(a)),
  ];
}

export function blocks(plan: WorkspacePlan): Block[] {
  let now = 0;
  return inOrder(plan.kernels).map((kernel) => {
    const start = now;
    now += kernel.time_us;
    const bottom = kernel.offset_bytes ?? 0;
    return {
      kernel,
      start,
      end: now,
      bottom,
      top: bottom + kernel.workspace_bytes,
    };
  });
}

export function arena(
  plan: WorkspacePlan,
): Draw {
  const all = blocks(plan);
  const end = all.at(-1)?.end ?? 0;
  const limit = plan.workspace_limit_bytes;
  const used = Math.max(1, ...all.map((b) => b.top));
  // The limit is drawn where it is in sight of what is used.
  const top = Math.max(used, limit <= 4 * used ? limit : 0);
  // Marks at powers of two.
  const interval = 2 ** Math.ceil(Math.log2(top / 6));
  return (colors) => {
    const fills: Record<string, string> = {
      forward: colors.accent,
      backward_data: colors.second,
      backward_filter: colors.third,
    };
    const draw = (
      params: CustomSeriesRenderItemParams,
      api: CustomSeriesRenderItemAPI,
    ) => {
      const block = all[params.dataIndex];
      if (!block) return null;
      const [left = 0, high = 0] = api.coord([block.start, block.top]);
      const [right = 0, low = 0] = api.coord([block.end, block.bottom]);
      const size = { width: right - left, height: Math.max(low - high, 2) };
      const letter = kLetters[block.kernel.op] ?? '';
      const full = `${block.kernel.layer} ${letter}`;
      const roomy = size.width > 7 * full.length && size.height > 16;
      return {
        type: 'rect' as const,
        shape: { x: left, y: low - size.height, ...size },
        style: {
          fill: fills[block.kernel.op] ?? colors.accent,
          stroke: colors.surface,
          lineWidth: 1,
        },
        textContent: {
          type: 'text' as const,
          style: {
            text: roomy ? full : size.width > 12 && size.height > 16 ? letter : '',
            fill: colors.surface,
            fontSize: 11,
            fontFamily: colors.font,
          },
        },
        textConfig: { position: 'inside' as const },
      };
    };
    return {
      height: 300,
      says:
        `${counted(all.length, 'kernel')} in ${time(end)}, in an arena of ` +
        `${bytes(used)}; largest: ` +
        [...all]
          .sort((a, b) => b.top - a.top)
          .slice(0, 3)
          .map((b) => `${b.kernel.layer} ${operation(b.kernel.op)} ${bytes(b.kernel.workspace_bytes)}`)
          .join(', '),
      option: {
        grid: { left: 76, right: 24, top: 24, bottom: 48 },
        tooltip: itemTooltip(colors, (index) => {
          const block = all[index];
          if (!block) return '';
          const { kernel } = block;
          return [
            `${kernel.layer} ${operation(kernel.op)}, ${time(kernel.time_us)}`,
            `${bytes(kernel.workspace_bytes)} from offset ${bytes(block.bottom)}`,
            ...microBatches(kernel.micro_batches),
          ].join('\n');
        }),
        dataZoom: [{ type: 'inside', xAxisIndex: 0, zoomOnMouseWheel: 'ctrl' }],
        xAxis: {
          ...axis(colors, 'time in an iteration', 30, mark, { showMaxLabel: false }),
          min: 0,
          max: end,
        },
        yAxis: {
          ...axis(colors, 'offset', 58, (value) => bytes(Math.round(value)), {
            showMaxLabel: false,
          }),
          min: 0,
          max: top * 1.1,
          interval,
        },
        series: [
          {
            type: 'custom',
            renderItem: draw,
            clip: true,
            encode: { x: [0, 1], y: [2, 3] },
            data: all.map((b) => [b.start, b.end, b.bottom, b.top]),
            markLine: markLine(
              colors,
              { formatter: `limit ${bytes(limit)}`, position: 'insideEndTop' },
              limit > 0 && limit <= top ? [{ yAxis: limit }] : [],
            ),
          },
        ],
      },
    };
  };
}
