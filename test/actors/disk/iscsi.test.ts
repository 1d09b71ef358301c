/** Disks of iSCSI targets, with a program in place of iscsiadm(8), which shows sessions as the kernel does. */
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { diskInventory } from '../../../src/actors/disk/inventory.ts';
import type { ISCSIDisk } from '../../../src/machines/model/operations/disk.ts';
import { DiskRoom, needsDisks } from './support.ts';

const IQN = 'iqn.2026-01.test:disks';
const PORTAL = '10.0.0.1:3260';
const NAME = `${PORTAL}-${IQN}-lun-0`;
const FOLDER = `kubernetes.io/iscsi/iface-default/${NAME}`;
const PASSWORD = 'a-secret-of-chap';

let room: DiskRoom;
let device: string;
beforeEach(() => {
  room = new DiskRoom();
  device = room.disk();
  standIn();
});
afterEach(() => room.close());

/** Logs in by creating what the kernel shows of a session: host 3 for the first portal, host 4 for others. */
function standIn(refusing = ''): void {
  const sys = room.machine.sys;
  for (const host of [3, 4]) writeFileSync(join(room.folder('machine/sys/class/scsi_host', `host${host}`), 'scan'), '');
  room.become(
    'iscsiadm',
    `case "$*" in
*"-m iface"*"-o show") printf 'iface.iscsi_ifacename = default\\niface.transport_name = tcp\\niface.initiatorname = <empty>\\n';;
*--discover) case "$*" in *"-p ${refusing || 'nowhere'} "*) echo "iscsiadm: cannot connect ${PASSWORD}" >&2; exit 4;; esac;;
*--login)
  portal=$(echo "$*" | sed 's/.*-p \\([^ ]*\\) .*/\\1/'); host=3; [ "$portal" = ${PORTAL} ] || host=4
  s=${sys}/class/iscsi_host/host$host/device/session$host; c=$s/connection1:0/iscsi_connection/connection1:0
  mkdir -p $s/iscsi_session/session$host $c
  echo ${IQN} > $s/iscsi_session/session$host/targetname
  for f in address persistent_address; do echo \${portal%:*} > $c/$f; done
  for f in port persistent_port; do echo \${portal##*:} > $c/$f; done
  ln -sf ${device} ${room.machine.dev}/disk/by-path/ip-$portal-iscsi-${IQN}-lun-0;;
*--logout*) rm -rf ${sys}/class/iscsi_host/*; exit 21;;
esac`,
  );
}

const disk = (more: Partial<ISCSIDisk> = {}): ISCSIDisk => ({
  kind: 'iscsi',
  volume: 'pv',
  portals: [PORTAL],
  iqn: IQN,
  lun: 0,
  initialInterface: 'default',
  interface: 'default',
  initiatorName: '',
  discoveryCHAP: false,
  sessionCHAP: false,
  ...more,
});
const directory = (folder = FOLDER) => room.file('plugins', folder);
const attach = (more: Partial<ISCSIDisk> = {}, secrets = {}, folder = FOLDER) =>
  room.ask('disk.attach', { directory: directory(folder), source: disk(more), isBlock: false, secrets });
const link = (portal = PORTAL) => join(room.machine.dev, `disk/by-path/ip-${portal}-iscsi-${IQN}-lun-0`);
const mountDevice = (options: readonly string[] = []) =>
  room.ask('disk.mountDevice', { directory: directory(), device: link(), fsType: '', options });
const mount = () => ({ path: join(room.pod, 'volumes/kubernetes.io~iscsi/pv'), map: null });
const setUp = (more: object = {}) =>
  room.ask('disk.setUp', {
    directory: directory(),
    device: link(),
    mount: mount(),
    options: [],
    ownership: null,
    ...more,
  });
const tearDown = () => room.ask('disk.tearDown', { podDirectory: room.pod, mount: mount() });
const detach = (isBlock = false, folder = FOLDER) =>
  room.ask('disk.detach', { directory: directory(folder), kind: 'iscsi', isBlock });
const node = (what: string) => `iscsiadm -m node -p ${PORTAL} -T ${IQN} ${what}`;
const discovery = (what: string) => `iscsiadm -m discoverydb -t sendtargets -p ${PORTAL} -I default ${what}`;

const LOGIN = [
  'iscsiadm -m iface -I default -o show',
  discovery('-o new'),
  discovery('--discover'),
  node('-I default -o update -n node.session.scan -v manual'),
  node('-I default --login'),
  node('-o update -n node.startup -v manual'),
];

describe.skipIf(needsDisks)('a disk of an iSCSI target', () => {
  it('is attached by the calls of the kubelet, in its order, and recorded in its format', async () => {
    expect(await attach()).toEqual({ device: link() });
    expect(room.calls().filter((call) => !call.startsWith('tee'))).toEqual(LOGIN);
    expect(readFileSync(join(room.machine.sys, 'class/scsi_host/host3/scan'), 'utf8')).toBe('0 0 0');
    expect(readFileSync(join(directory(), 'iscsi.json'), 'utf8')).toBe(
      `{"VolName":"pv","Portals":["${PORTAL}"],"Iqn":"${IQN}","Lun":"0","InitIface":"default","Iface":"default",` +
        '"InitiatorName":"","MetricsProvider":null}\n',
    );
  });

  it('is formatted, mounted for the node and the pod, and taken away in the other order', async () => {
    await attach();
    room.calls();
    await mountDevice(['noatime']);
    expect(room.calls()).toEqual([
      `blkid -p -s TYPE -s PTTYPE -o export ${link().replace(room.root, '')}`,
      `mkfs.ext4 -F -m0 ${link().replace(room.root, '')}`,
      `mount -t ext4 -o noatime,defaults ${link().replace(room.root, '')} /plugins/${FOLDER}`,
    ]);
    expect(await setUp()).toBeNull();
    writeFileSync(join(mount().path, 'file'), 'kept');
    await tearDown();
    await detach();
    expect(room.mounts()).toEqual([]);
    expect(room.calls().filter((call) => /^(umount|iscsiadm)/.test(call))).toEqual([
      'umount --no-canonicalize /pods/u1/volumes/kubernetes.io~iscsi/pv',
      `umount --no-canonicalize /plugins/${FOLDER}`,
      node('--logout -I default'),
      node('-o delete -I default'),
    ]);
    expect(existsSync(directory())).toBe(false);
    await attach();
    await mountDevice();
    await setUp();
    expect(readFileSync(join(mount().path, 'file'), 'utf8')).toBe('kept');
    await tearDown();
    await detach();
  });

  it('that is mounted stays as it is', async () => {
    await attach();
    await mountDevice();
    await setUp();
    room.calls();
    await attach();
    await mountDevice();
    await setUp();
    expect(room.calls().filter((call) => !call.startsWith('tee'))).toEqual(['iscsiadm -m iface -I default -o show']);
    expect(room.mounts()).toHaveLength(2);
    await expect(detach()).rejects.toThrow(
      `the device mount path "${directory()}" is still mounted by other references [${mount().path}]`,
    );
    expect(room.mounts()).toHaveLength(2);
  });

  it('keeps the session as long as another disk of the target needs it', async () => {
    await attach();
    mkdirSync(room.file('plugins/kubernetes.io/iscsi/iface-default', `${PORTAL}-${IQN}-lun-1`));
    room.calls();
    await detach();
    expect(room.calls().filter((call) => call.startsWith('iscsiadm'))).toEqual([]);
  });

  it('gets the CHAP secret, which is in no error', async () => {
    standIn(PORTAL);
    const secrets = {
      'discovery.sendtargets.auth.username': { text: 'user-of-discovery' },
      'discovery.sendtargets.auth.password': { text: room.vault.seal(PASSWORD) },
      'node.session.auth.username': { text: 'user-of-session' },
    };
    const text = await attach({ discoveryCHAP: true, sessionCHAP: true }, secrets).then(
      () => '',
      (error: Error) => error.message,
    );
    expect(text).toMatch(
      /^failed to get any path for iscsi disk, last err seen:\niscsi: failed to sendtargets to portal 10\.0\.0\.1:3260 output: iscsiadm: cannot connect .*\n, err exit status 4$/,
    );
    expect(text).not.toContain(PASSWORD);
    expect(room.calls().slice(1, 6)).toEqual([
      discovery('-o new'),
      discovery('-o update -n discovery.sendtargets.auth.authmethod -v CHAP'),
      discovery('-o update -n discovery.sendtargets.auth.username -v user-of-discovery'),
      discovery(`-o update -n discovery.sendtargets.auth.password -v ${PASSWORD}`),
      discovery('--discover'),
    ]);
    standIn();
    await attach({ sessionCHAP: true }, secrets);
    expect(room.calls().filter((call) => call.includes('node.session.auth'))).toEqual([
      node('-I default -o update -n node.session.auth.authmethod -v CHAP'),
      node('-I default -o update -n node.session.auth.username -v user-of-session'),
    ]);
  });

  it('with an own initiator name has an interface of its own, which goes with it', async () => {
    const name = `${PORTAL}:pv`;
    const folder = `kubernetes.io/iscsi/iface-${name}/${NAME}`;
    await attach({ interface: name, initiatorName: 'iqn.2026-01.test:me' }, {}, folder);
    expect(room.calls().slice(1, 5)).toEqual([
      'iscsiadm -m iface -I default -o show',
      `iscsiadm -m iface -I ${name} -o new`,
      `iscsiadm -m iface -I ${name} -o update -n iface.initiatorname -v iqn.2026-01.test:me`,
      `iscsiadm -m iface -I ${name} -o update -n iface.transport_name -v tcp`,
    ]);
    await detach(false, folder);
    expect(room.calls().at(-1)).toBe(`iscsiadm -m iface -I ${name} -o delete`);
  });

  it('with several portals waits for the multipath device, and does without a portal that fails', async () => {
    const second = '10.0.0.2:3260';
    const portals = [PORTAL, second, '10.0.0.3:3260'];
    standIn('10.0.0.3:3260');
    room.folder('machine/sys/block/dm-7/slaves', device.slice('/dev/'.length));
    expect(await attach({ portals })).toEqual({ device: join(room.machine.dev, 'dm-7') });
    expect(room.calls().filter((call) => call.endsWith('--login'))).toHaveLength(2);
  });

  it('whose device does not come is said, and the session ends with the disk', async () => {
    room.become('iscsiadm', '[ "$*" = "-m iface -I default -o show" ] && echo "iface.transport_name = tcp"; true');
    await expect(attach()).rejects.toThrow('failed to get any path for iscsi disk, last err seen:\n<nil>');
    room.calls();
    await detach();
    expect(room.calls()).toEqual([node('--logout -I default'), node('-o delete -I default')]);
    expect(existsSync(directory())).toBe(false);
  });

  it('has the texts of the kubelet without iscsiadm, and if it fails', async () => {
    room.become('iscsiadm', 'exit 21');
    await expect(attach()).rejects.toThrow(/^exit status 21$/);
  });

  it('is found by the next agent, as a file system and as a device', async () => {
    await attach();
    await mountDevice();
    await setUp();
    const block = `kubernetes.io/iscsi/volumeDevices/iface-default/${NAME}`;
    const map = join(directory(block), 'u1');
    const path = join(room.pod, 'volumeDevices/kubernetes.io~iscsi/raw');
    mkdirSync(dirname(map), { recursive: true });
    await setUp({ mount: { path, map } });
    expect(readlinkSync(path)).toBe(device);
    const driver = 'kubernetes.io/iscsi';
    const id = { driver, handle: NAME };
    expect(await diskInventory(room.root)).toEqual({
      volumes: [
        { uid: 'u1', spec: 'pv', ...id, isEphemeral: false, isBlock: false, folder: FOLDER },
        { uid: 'u1', spec: 'raw', ...id, isEphemeral: false, isBlock: true, folder: block },
      ],
      devices: [
        { directory: directory(), ...id, block: null, folder: FOLDER },
        { directory: directory(block), ...id, block: NAME, folder: block },
      ],
      errors: [],
    });
    await room.ask('disk.tearDown', { podDirectory: room.pod, mount: { path, map } });
    await detach(true, block);
    expect(readdirSync(room.file('plugins/kubernetes.io/iscsi/volumeDevices/iface-default'))).toEqual([]);
    expect(room.mounts()).toHaveLength(2);
  });

  it('gives its files to the group of the pod', async () => {
    await attach();
    await mountDevice();
    await setUp({ ownership: { groupId: 4242, onlyTop: false } });
    expect(statSync(mount().path).gid).toBe(4242);
  });

  it('is read-only for one pod and writable for another', async () => {
    await attach();
    await mountDevice();
    await setUp({ options: ['ro'] });
    const other = { path: room.file('pods/u2/volumes/kubernetes.io~iscsi/pv'), map: null };
    await setUp({ mount: other });
    const optionsOf = (path: string) =>
      room
        .mounts()
        .find((line) => line.includes(` ${path} `))
        ?.split(' ')[5];
    expect([optionsOf(mount().path), optionsOf(other.path)].map((each) => each?.slice(0, 2))).toEqual(['ro', 'rw']);
  });
});
