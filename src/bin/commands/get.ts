/** `statelet get pods`: the pods of this node as it sees them, in kubectl's columns. */
import { stringify } from 'yaml';
import {
  askedFor,
  LocalError,
  type LocalOptions,
  type LocalPod,
  podNamed,
  pods,
  socketPath,
} from '../local/node-client.ts';
import { columns, podRows } from '../local/pod-table.ts';
import { printable } from '../printable.ts';

export interface GetOptions extends LocalOptions {
  readonly output?: string;
  readonly allNamespaces?: boolean;
}

const FORMS: readonly string[] = ['wide', 'json', 'yaml', 'name'];

/** @throws LocalError */
export async function getCommand(resource: string, given: string | undefined, options: GetOptions): Promise<string> {
  const name = askedFor(resource, given);
  if (options.output !== undefined && !FORMS.includes(options.output)) {
    const forms = FORMS.join(', ');
    throw new LocalError(`error: there is no output format ${JSON.stringify(options.output)}; there are ${forms}`);
  }
  const socket = await socketPath(options);
  const namespace = options.allNamespaces ? '' : options.namespace;
  const found = name === undefined ? await pods(socket, namespace) : [await podNamed(socket, namespace, name)];
  const { output } = options;
  if (output === 'json' || output === 'yaml') return document(found, name, output);
  if (output === 'name') return found.map(({ metadata }) => `pod/${metadata.name}\n`).join('');
  if (found.length === 0) {
    process.stderr.write(`No resources found${namespace === '' ? '' : ` in ${namespace} namespace`}.\n`);
    return '';
  }
  const rows = podRows(found, {
    wide: output === 'wide',
    allNamespaces: options.allNamespaces ?? false,
    nowMs: Date.now(),
  });
  return printable(columns(rows));
}

function document(found: readonly LocalPod[], name: string | undefined, form: 'json' | 'yaml'): string {
  const items = found.map((pod) => ({ apiVersion: 'v1', kind: 'Pod', ...pod }));
  const value = name === undefined ? { apiVersion: 'v1', items, kind: 'List', metadata: {} } : items[0];
  return form === 'json' ? `${JSON.stringify(value, null, 4)}\n` : stringify(value);
}
