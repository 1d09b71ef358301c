/**
 * Ports: the kubelet's configuration files, and the watch that reports changes since they were read.
 *
 * Owns, by path, the fingerprint of the files (inode, size, times) just before they were last read, so that a change
 * between reading and watching is not lost, and a change already read is not reported again.
 *
 * Decides: inotify is a hint; the files are inspected after a hint, and at least every `periodMs`, because changes
 * behind a link, in a deeper folder, or on a file system without inotify cause none.
 */
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Vault } from '../../../kernel/journal/secrets.ts';
import type { CallOf, Port } from '../../../kernel/operation.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { limitMs } from '../../pause.ts';
import { PathWatch } from '../path-watch.ts';
import { readConfiguration, readDropIns } from './configuration.ts';
import { masked, maskedDropIns } from './masked-configuration.ts';

/** Files of one folder that are inspected: more than the reader of the folder accepts. */
const MAX_FILES = 2_000;

type Operations = typeof hostOperations;
type WatchCall = CallOf<Operations['host.watchConfiguration']>;

/** `vault` keeps the credentials in the files, for the port that sends them. */
export function configurationPorts(vault: Vault) {
  const hide = (value: string): string => vault.seal(value).$secret;
  const held = <Masked>(id: string, masking: () => Masked): Masked =>
    vault.hold({ namespace: '', id: `configuration/${id}` }, masking);
  const read = new Map<string, string>();
  const noted = async <T>(path: string, reading: (path: string) => Promise<T>): Promise<T> => {
    read.set(path, await fingerprintOf(path));
    return reading(path);
  };
  const file: Port<Operations['host.readConfiguration']> = async ({ input }) => {
    const content = await noted(input.path, readConfiguration);
    return held('file', () => masked(content, hide));
  };
  const dropIns: Port<Operations['host.readDropIns']> = async ({ input }) => {
    const contents = await noted(input.path, readDropIns);
    return held('drop-ins', () => maskedDropIns(contents, hide));
  };
  const watch: Port<Operations['host.watchConfiguration']> = async (call) => {
    await follow(call, read);
    return null;
  };
  return { 'host.readConfiguration': file, 'host.readDropIns': dropIns, 'host.watchConfiguration': watch };
}

/** Reports each new state of the files once, until the stream is cancelled. */
async function follow(call: WatchCall, read: ReadonlyMap<string, string>): Promise<void> {
  const { input, signal } = call;
  let wake: () => void = () => {};
  let hinted = false;
  const watches = input.paths.map(
    (path) =>
      new PathWatch(resolve(path), () => {
        hinted = true;
        wake();
      }),
  );
  signal.addEventListener('abort', () => wake(), { once: true });
  let reported = JSON.stringify(
    await Promise.all(input.paths.map(async (path) => read.get(path) ?? fingerprintOf(path))),
  );
  while (!signal.aborted) {
    hinted = false;
    await Promise.all(watches.map((each) => each.arm()));
    const fingerprint = JSON.stringify(await Promise.all(input.paths.map(fingerprintOf)));
    if (fingerprint !== reported && !signal.aborted) call.emit({ type: 'configuration.changed' });
    reported = fingerprint;
    await new Promise<void>((done) => {
      if (hinted || signal.aborted) return done();
      const timer = setTimeout(done, limitMs(input.periodMs));
      wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
  for (const each of watches) each.close();
}

/** The fingerprint of a file, or of all files below a folder, without reading them. */
async function fingerprintOf(path: string): Promise<string> {
  const found = await fingerprintOfOne(path);
  if (found === null) return 'none';
  if (!found.isDirectory) return found.fingerprint;
  const names = await readdir(path, { recursive: true }).catch(() => []);
  const relevant = names.filter((name) => name.endsWith('.conf')).slice(0, MAX_FILES);
  const fingerprint = await Promise.all(
    relevant.toSorted().map(async (name) => [name, await fingerprintOfOne(join(path, name))]),
  );
  return JSON.stringify(fingerprint);
}

async function fingerprintOfOne(path: string): Promise<{ isDirectory: boolean; fingerprint: string } | null> {
  try {
    const found = await stat(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    return { isDirectory: found.isDirectory(), fingerprint: [dev, ino, size, mtimeNs, ctimeNs].join(':') };
  } catch {
    return null;
  }
}
