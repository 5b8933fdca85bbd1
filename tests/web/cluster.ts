// A coordinator, agents and jobs as processes, as an administrator runs them.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run this test by ctest`);
  return value;
}

// Polls until `condition` holds; throws with what `told` says if it does not
// within a minute.
export async function until(
  condition: () => Promise<boolean> | boolean,
  told: () => Promise<string> | string = () => String(condition),
): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`in vain: ${await told()}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

// Convolutions small enough to be measured and trained on a CPU in seconds.
export const kTinyNetwork =
  'name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n' +
  'conv1,3,24,24,16,3,3,1,1,1,1,1\n' +
  'conv2,16,24,24,24,3,3,1,1,1,1,1\n' +
  'conv3,24,12,12,32,3,3,1,1,1,1,1\n';

export class Cluster {
  readonly data = setting('UCUDNN_TEST_DATA');
  private readonly bin = setting('UCUDNN_BIN_DIR');
  private readonly children = new Map<string, ChildProcess>();
  private grpc = 0;
  private http = 0;

  private constructor(readonly folder: string) {}

  static async create(): Promise<Cluster> {
    const folder = await mkdtemp(path.join(tmpdir(), 'ucudnn-web-'));
    return new Cluster(folder);
  }

  get address(): string {
    return `127.0.0.1:${this.grpc}`;
  }

  get url(): string {
    return `http://127.0.0.1:${this.http}/`;
  }

  log(): Promise<string> {
    return readFile(path.join(this.folder, 'log'), 'utf8');
  }

  // Starts, or restarts on the same ports, and waits until it serves.
  async startCoordinator(...more: string[]): Promise<void> {
    const ready = path.join(this.folder, 'ready');
    await rm(ready, { force: true });
    this.start(
      'coordinator',
      'ucudnn-coord',
      ...['serve', '--listen', this.address, '--http', `127.0.0.1:${this.http}`],
      ...['--create', '--database', `sqlite://${path.join(this.folder, 'coordinator.db')}`],
      ...['--ready-file', ready, '--lease-ms', '5000', '--heartbeat-ms', '200'],
      ...['--agent-timeout-ms', '3000', '--poll-after-ms', '50'],
      ...['--report-after-ms', '100', '--job-timeout-ms', '10000'],
      ...more,
    );
    let text = '';
    await until(
      async () => (text = await readFile(ready, 'utf8').catch(() => '')) !== '',
      () => this.log(),
    );
    const ports = JSON.parse(text) as { grpc_port: number; http_port: number };
    this.grpc = ports.grpc_port;
    this.http = ports.http_port;
  }

  // An agent that replays a profile; its kind has `units` units.
  replay(id: string, profile: string, network: string, units: number, ...more: string[]): void {
    this.start(
      id,
      'recorded_agent',
      ...['--coordinator', this.address, '--id', id],
      ...['--profile', path.join(this.data, profile)],
      ...['--network', path.join(this.data, network)],
      ...['--units', String(units), ...more],
    );
  }

  // An agent that measures this machine's CPU as two devices.
  startAgent(): void {
    this.start(
      'agent',
      'ucudnn-agent',
      ...['--coordinator', this.address, '--id', 'cpu-node', '--repeats', '3'],
      ...['--cpu-devices', '2', '--cpu-threads', '1'],
    );
  }

  start(name: string, program: string, ...args: string[]): void {
    const log = openSync(path.join(this.folder, 'log'), 'a');
    const child = spawn(this.program(program), args, {
      stdio: ['ignore', log, log],
      env: { ...process.env, OMP_WAIT_POLICY: 'passive' },
    });
    this.children.set(name, child);
  }

  // Sends SIGTERM and waits for the end.
  async stop(name: string): Promise<void> {
    const child = this.children.get(name);
    this.children.delete(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }

  async ucudnn(...args: string[]): Promise<string> {
    const { stdout } = await run(
      this.program('ucudnn'),
      ['--coordinator', this.address, ...args],
      { timeout: 120_000 },
    );
    return stdout;
  }

  async putNetwork(name: string, csv: string): Promise<void> {
    await writeFile(this.networkFile(name), csv);
    await this.ucudnn('networks', 'put', name, this.networkFile(name));
  }

  // Of a profile of all that takes up to 1 GiB; its network is a file of the data.
  async importProfile(csv: string, network: string): Promise<void> {
    const file = path.join(this.folder, 'profile.csv');
    await writeFile(file, csv);
    await this.ucudnn(
      ...['profiles', 'import', file, '--complete-up-to', '1GiB'],
      ...['--network', path.join(this.data, network)],
    );
  }

  // A job of two ranks that trains a network of putNetwork on the CPU.
  async train(network: string, steps: number): Promise<void> {
    await run(
      'mpirun',
      [
        ...['-np', '2', '--bind-to', 'none', '--oversubscribe', '--allow-run-as-root'],
        this.program('ucudnn-train'),
        ...['--coordinator', this.address, '--network', this.networkFile(network)],
        ...['--batch', '16', '--memory-budget', '8MiB,4MiB', '--wait', '120'],
        ...['--cpu-devices', '2', '--threads', '1', '--steps', String(steps)],
      ],
      {
        timeout: 180_000,
        env: {
          ...process.env,
          OMP_WAIT_POLICY: 'passive',
          OMPI_MCA_orte_tmpdir_base: this.folder,
        },
      },
    );
  }

  async get<T>(at: string): Promise<T> {
    const response = await fetch(this.url + at);
    return (await response.json()) as T;
  }

  async close(): Promise<void> {
    for (const name of [...this.children.keys()].reverse()) await this.stop(name);
    await rm(this.folder, { recursive: true, force: true });
  }

  private networkFile(name: string): string {
    return path.join(this.folder, `${name}.csv`);
  }

  private program(name: string): string {
    return path.join(this.bin, name);
  }
}
