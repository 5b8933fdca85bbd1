// A list, newest first, of what never changes once it is there: only what is
// new is asked for again.

export class Growing<T> {
  private known: T[] = [];

  constructor(
    // The newest entries, up to `limit`.
    private readonly newest: (limit: number, signal: AbortSignal) => Promise<T[]>,
    private readonly idOf: (item: T) => string | number,
    readonly most: number,
  ) {}

  // Up to `most` entries.
  async load(signal: AbortSignal): Promise<T[]> {
    const few = Math.min(20, this.most);
    const head = await this.newest(few, signal);
    const last = head[head.length - 1];
    const meets =
      last === undefined ||
      head.length < few ||
      this.known.some((item) => this.idOf(item) === this.idOf(last));
    if (!meets) {
      this.known = await this.newest(this.most, signal);
      return this.known;
    }
    const fresh = new Set(head.map(this.idOf));
    const older = head.length < few ? [] : this.known.filter((item) => !fresh.has(this.idOf(item)));
    this.known = [...head, ...older].slice(0, this.most);
    return this.known;
  }
}
