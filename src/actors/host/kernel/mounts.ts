/** The table of mounts, as /proc/<pid>/mountinfo has it. */

export interface Mount {
  /** The mounted device or name: `/dev/sda1`, `tmpfs`. */
  readonly source: string;
  readonly point: string;
  readonly type: string;
  readonly options: readonly string[];
  /** Mounts below it propagate to its peers. */
  readonly isShared: boolean;
}

/** Format: proc_pid_mountinfo(5). */
export function parseMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , , point, , ...tags] = before.split(' ');
    const [type = '', source = '', options = ''] = after.split(' ');
    if (point === undefined) return [];
    const isShared = tags.some((tag) => tag.startsWith('shared:'));
    return [{ source, point: unescape(point), type, options: options.split(','), isShared }];
  });
}

/** A path as the kernel's table has it. */
export const escaped = (path: string): string =>
  path.replace(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);

/** Spaces and similar characters are written as three octal digits. */
const unescape = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
