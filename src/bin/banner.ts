/** What `statelet run` prints for a user at a terminal: where the node keeps and serves its data. */
import { Kernel } from '../kernel/kernel.ts';
import type { KernelRecord } from '../kernel/records.ts';
import type { KubeletContext } from '../machines/startup/context/types.ts';
import { kubeletMachine } from '../machines/startup/kubelet.ts';

/**
 * The address of the page, as it is printed. Its token opens every record of the node: it is for the user at a
 * terminal, and a log, which others may read, says only which file has it.
 */
export function pageAddress(url: string | null, tokenPath: string, toTerminal: boolean): string | null {
  if (url === null || toTerminal) return url;
  return `${new URL('/', url).href} (needs ?token= and the content of ${tokenPath})`;
}

interface Places {
  readonly journal: string;
  readonly visualizer: string | null;
}

/** The observer that prints the places of the node for a user at a terminal, once, when the start is complete. */
export function announceOnce(places: () => Places): (records: readonly KernelRecord[], kernel: Kernel) => void {
  let healthz: string | null = null;
  let announced = false;
  return (records, kernel) => {
    if (announced) return;
    healthz ??= healthzIn(records);
    const root = kernel.snapshotOf(kubeletMachine.id) as Snapshot | undefined;
    if (!root?.matches({ alive: { startup: { startKubelet: { serving: 'blocked' } } } })) return;
    if ((root.context.config?.healthzPort ?? 0) > 0 && !healthz) return;
    announced = true;
    process.stderr.write(banner(root.context, { ...places(), healthz }));
  };
}

interface Snapshot {
  readonly context: KubeletContext;
  matches(value: unknown): boolean;
}

function healthzIn(records: readonly KernelRecord[]): string | null {
  for (const record of records) {
    if (record.k !== 'message' || record.event.type !== 'healthz.serving') continue;
    const [address, port] = [String(record.event['address']), Number(record.event['port'])];
    return `http://${address.includes(':') ? `[${address}]` : address}:${port}/healthz`;
  }
  return null;
}

function banner(
  { input, runtime, settings, config }: KubeletContext,
  places: Places & { readonly healthz: string | null },
): string {
  const runtimeText = runtime?.embedded ? 'embedded: plain host processes, no isolation' : runtime?.endpoint;
  const rows = [
    ['visualizer', places.visualizer ?? 'off'],
    ['healthz', places.healthz ?? 'off'],
    ['journal', places.journal],
    ['runtime', `${runtime?.name} ${runtime?.version} (${runtimeText})`],
    ['pods', config?.staticPodPath || 'none: set staticPodPath or --pod-manifest-path'],
  ] as const;
  const lines = rows.map(([name, value]) => `  ${name.padEnd(11)} ${value}\n`).join('');
  return `\nstatelet ${input.version} runs as node ${settings?.nodeName}\n${lines}\n`;
}
