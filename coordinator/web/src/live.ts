// Repeats a view's request while the page is visible, and tells whether the
// coordinator answers.

import { ApiError } from './api.js';

export interface Health {
  answeredMs: number; // the last answer; 0: none yet
  failure: string; // why the last request failed; empty if it did not
}

const kIntervalMs = 2_000;
const kMaxIntervalMs = 30_000;
const kMaxRetryMs = 15_000;

// Calls `load`, then `show` with its answer, then both again after a pause: two
// seconds, longer if answers take long, and growing while there are none.
// Errors of a request that cannot succeed later (4xx) go to `refuse` and end it.
export class Live<T> {
  private readonly controller = new AbortController();
  private wake: () => void = () => {};
  private failures = 0;
  private health: Health = { answeredMs: 0, failure: '' };

  constructor(
    private readonly load: (signal: AbortSignal) => Promise<T>,
    private readonly show: (answer: T) => void,
    private readonly refuse: (error: ApiError) => void,
    private readonly report: (health: Health) => void,
  ) {
    document.addEventListener('visibilitychange', this.resume);
    void this.run();
  }

  // Asks now instead of after the pause.
  retry(): void {
    this.wake();
  }

  stop(): void {
    this.controller.abort();
    document.removeEventListener('visibilitychange', this.resume);
    this.wake();
  }

  private readonly resume = () => {
    if (!document.hidden) this.wake();
  };

  private async run(): Promise<void> {
    const { signal } = this.controller;
    while (!signal.aborted) {
      const pause = document.hidden ? Infinity : await this.once(signal);
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const timer =
          pause === Infinity ? undefined : setTimeout(resolve, pause);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  // One request; returns how long to wait after it, in milliseconds.
  private async once(signal: AbortSignal): Promise<number> {
    const start = performance.now();
    try {
      const answer = await this.load(signal);
      if (signal.aborted) return 0;
      this.show(answer);
    } catch (error) {
      return signal.aborted ? 0 : this.failed(error);
    }
    this.failures = 0;
    this.tell({ answeredMs: Date.now(), failure: '' });
    const took = performance.now() - start;
    return Math.min(Math.max(kIntervalMs, 10 * took), kMaxIntervalMs);
  }

  // Returns how long to wait before the next request.
  private failed(error: unknown): number {
    if (
      error instanceof ApiError &&
      error.status >= 400 &&
      error.status < 500 &&
      error.status !== 429
    ) {
      this.refuse(error);
      this.stop();
      return 0;
    }
    const known = error instanceof ApiError;
    // A fault of the page, such as an answer of another version.
    if (!known) console.error(error);
    const pause = Math.min(1000 * 2 ** this.failures++, kMaxRetryMs);
    this.tell({
      ...this.health,
      failure: known ? error.message : `its answer cannot be shown (${error})`,
    });
    return pause;
  }

  private tell(health: Health): void {
    this.health = health;
    this.report(health);
  }
}
