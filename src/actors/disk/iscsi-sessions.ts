/**
 * The sessions with iSCSI targets, as the kernel shows them below `/sys/class/iscsi_host`.
 *
 * Upstream: pkg/volume/util/device_util_linux.go.
 */
import { join } from 'node:path';
import { type DiskMachine, exists, namesIn, textIn } from './machine.ts';

interface Session {
  /** The number of its SCSI host. */
  readonly host: number;
  readonly path: string;
}

async function sessionsOf({ sys }: DiskMachine, iqn: string): Promise<readonly Session[]> {
  const found: Session[] = [];
  const folder = join(sys, 'class/iscsi_host');
  for (const name of await namesIn(folder)) {
    const host = /^host(\d+)$/.exec(name)?.[1];
    if (host === undefined) continue;
    const device = join(folder, name, 'device');
    for (const session of await namesIn(device)) {
      if (!session.startsWith('session')) continue;
      const path = join(device, session);
      const target = await textIn(join(path, 'iscsi_session', session, 'targetname'));
      if (target === iqn) found.push({ host: Number(host), path });
    }
  }
  return found;
}

const portalAt = (address: string, port: string): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;

/** The numbers of the SCSI hosts of a target's sessions, by portal: the present one, and the one of the login. */
export async function hostsByPortal(machine: DiskMachine, iqn: string): Promise<ReadonlyMap<string, number>> {
  const hosts = new Map<string, number>();
  for (const { host, path } of await sessionsOf(machine, iqn)) {
    for (const connection of await namesIn(path)) {
      if (!connection.startsWith('connection')) continue;
      const place = join(path, connection, 'iscsi_connection', connection);
      const names = ['address', 'port', 'persistent_address', 'persistent_port'];
      const [address, port, first, firstPort] = await Promise.all(names.map((name) => textIn(join(place, name))));
      if (address == null || port == null || first == null || firstPort == null) continue;
      hosts.set(portalAt(address, port), host);
      hosts.set(portalAt(first, firstPort), host);
    }
  }
  return hosts;
}

/** The names of the devices of one logical unit of a target: `sdb`. */
export async function devicesOf(machine: DiskMachine, iqn: string, lun: number): Promise<readonly string[]> {
  const devices: string[] = [];
  for (const { host, path } of await sessionsOf(machine, iqn)) {
    const unit = join(path, `target${host}:0:0`, `${host}:0:0:${lun}`);
    if (!(await exists(unit))) continue;
    devices.push(...(await namesIn(join(unit, 'block'))).slice(0, 1));
  }
  return devices;
}
