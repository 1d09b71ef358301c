/**
 * Logs in to iSCSI targets by iscsiadm(8): discovery, records of nodes, CHAP, the interface of an own initiator name.
 *
 * Invariant: CHAP secrets are arguments of iscsiadm only, and never part of an error.
 *
 * Upstream: pkg/volume/iscsi/iscsi_util.go.
 */
import type { ISCSIDisk } from '../../machines/model/operations/disk.ts';
import type { Ending } from '../host/killable.ts';
import { type DiskMachine, failed, ISCSIADM_TIMEOUT_MS, run } from './machine.ts';

/** iscsiadm says that there is already a session. */
const SESSION_EXISTS = 'exit status 15';
const KEYS = ['username', 'password', 'username_in', 'password_in'];

export interface Login {
  readonly machine: DiskMachine;
  readonly disk: ISCSIDisk;
  /** Values of the CHAP secret by key. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly signal: AbortSignal;
}

export function iscsiadm({ machine, signal }: Pick<Login, 'machine' | 'signal'>, ...argv: string[]): Promise<Ending> {
  return run(machine, 'iscsiadm', argv, { timeoutMs: ISCSIADM_TIMEOUT_MS, signal });
}

/** The transport of the configured interface; empty if iscsiadm does not tell it. */
export async function transportOf(login: Login): Promise<string> {
  const { status, output } = await iscsiadm(login, '-m', 'iface', '-I', login.disk.initialInterface, '-o', 'show');
  if (status !== '') throw failed(status);
  const transport = /iface\.transport_name = (.*)\n/.exec(output)?.[1] ?? '';
  return transport === '<empty>' ? 'tcp' : transport;
}

export const deleteInterface = (login: Login): Promise<Ending> =>
  iscsiadm(login, '-m', 'iface', '-I', login.disk.interface, '-o', 'delete');

/** Makes an interface with the settings of the configured one and the initiator name of the volume. */
export async function cloneInterface(login: Login): Promise<void> {
  const { initialInterface, interface: name, initiatorName } = login.disk;
  if (initialInterface === name) throw failed(`iscsi: cannot clone iface with same name: ${initialInterface}`);
  const shown = await iscsiadm(login, '-m', 'iface', '-I', initialInterface, '-o', 'show');
  if (shown.status !== '') throw failed(`iscsi: failed to show iface records: ${shown.output} (${shown.status})`);
  const settings = settingsIn(shown.output).set('iface.initiatorname', initiatorName);
  const made = await iscsiadm(login, '-m', 'iface', '-I', name, '-o', 'new');
  if (made.status !== '' && made.status !== SESSION_EXISTS) {
    throw failed(`iscsi: failed to create new iface: ${made.output} (${made.status})`);
  }
  for (const [key, value] of [...settings].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const { status } = await iscsiadm(login, '-m', 'iface', '-I', name, '-o', 'update', '-n', key, '-v', value);
    if (status === '') continue;
    await deleteInterface(login);
    const kept = `iface(${initialInterface}) will be used`;
    throw failed(`iscsi: failed to update iface records: ${made.output} (${status}). ${kept}`);
  }
}

function settingsIn(output: string): Map<string, string> {
  const settings = new Map<string, string>();
  for (const line of output.split('\n')) {
    if (!line.startsWith('iface.') || line.includes('<empty>')) continue;
    const words = line.split(/\s+/).filter((word) => word !== '');
    const [key = '', equals, value = ''] = words;
    if (words.length !== 3 || equals !== '=') {
      const text = `error: invalid iface setting: [${words.join(' ')}]`;
      throw failed(`iscsi: failed to parse iface records: ${output} (${text})`);
    }
    // The name cannot be changed once the interface exists.
    if (key !== 'iface.iscsi_ifacename') settings.set(key, value);
  }
  return settings;
}

/** Discovers the target at a portal and logs in to it. Throws with the text of the failure. */
export async function logIn(login: Login, portal: string): Promise<void> {
  const { iqn, interface: iface } = login.disk;
  const discovery = ['-m', 'discoverydb', '-t', 'sendtargets', '-p', portal, '-I', iface];
  await iscsiadm(login, ...discovery, '-o', 'new');
  await setDiscoveryCHAP(login, portal, discovery);
  const discovered = await iscsiadm(login, ...discovery, '--discover');
  if (discovered.status !== '') {
    await iscsiadm(login, ...discovery, '-o', 'delete');
    const { output, status } = discovered;
    throw failed(`iscsi: failed to sendtargets to portal ${portal} output: ${output}, err ${status}`);
  }
  await setNode(login, portal);
  const entered = await iscsiadm(login, '-m', 'node', '-p', portal, '-T', iqn, '-I', iface, '--login');
  if (entered.status !== '') {
    await iscsiadm(login, '-m', 'node', '-p', portal, '-I', iface, '-T', iqn, '-o', 'delete');
    throw failed(`iscsi: failed to attach disk: Error: ${entered.output} (${entered.status})`);
  }
  // The session must not delay a boot of this machine; a failure costs nothing now.
  await iscsiadm(login, '-m', 'node', '-p', portal, '-T', iqn, '-o', 'update', '-n', 'node.startup', '-v', 'manual');
}

type Update = (key: string, value: string) => Promise<Ending>;

async function setDiscoveryCHAP(login: Login, portal: string, discovery: readonly string[]): Promise<void> {
  if (!login.disk.discoveryCHAP) return;
  const update: Update = (key, value) => iscsiadm(login, ...discovery, '-o', 'update', '-n', key, '-v', value);
  const problem = await setCHAP(login, update, 'discovery.sendtargets.auth', ['discoverydb', 'discoverydb key']);
  if (problem === '') return;
  throw failed(`iscsi: failed to update discoverydb to portal ${portal} error: ${problem}`);
}

async function setNode(login: Login, portal: string): Promise<void> {
  const { iqn, interface: iface, sessionCHAP } = login.disk;
  const node = ['-m', 'node', '-p', portal, '-T', iqn, '-I', iface, '-o', 'update'];
  const update: Update = (key, value) => iscsiadm(login, ...node, '-n', key, '-v', value);
  // Only units of volumes are looked for; a version of iscsiadm without this setting looks for all.
  await update('node.session.scan', 'manual');
  if (!sessionCHAP) return;
  const problem = await setCHAP(login, update, 'node.session.auth', ['node', 'node session key']);
  if (problem !== '') throw failed(`iscsi: failed to update iscsi node to portal ${portal} error: ${problem}`);
}

/** `words`: what is updated, in upstream's texts. Returns the text of the failure; empty for none. */
async function setCHAP(
  { secrets }: Login,
  update: Update,
  prefix: string,
  [record, entry]: readonly [string, string],
): Promise<string> {
  const method = await update(`${prefix}.authmethod`, 'CHAP');
  if (method.status !== '') return `iscsi: failed to update ${record} with CHAP, output: ${method.output}`;
  for (const key of KEYS.map((each) => `${prefix}.${each}`)) {
    const value = secrets.get(key) ?? '';
    if (value === '') continue;
    const { status, output } = await update(key, value);
    if (status !== '') return `iscsi: failed to update ${entry} ${JSON.stringify(key)} error: ${output}`;
  }
  return '';
}
