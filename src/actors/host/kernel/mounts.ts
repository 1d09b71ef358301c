/** What is mounted where. */

export interface Mount {
  /** What is mounted: `/dev/sda1`, or a name. */
  readonly source: string;
  readonly point: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** Format: proc_pid_mountinfo(5). */
export function parseMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const point = before.split(' ')[4];
    const [type = '', source = '', options = ''] = after.split(' ');
    return point === undefined ? [] : [{ source, point: unescape(point), type, options: options.split(',') }];
  });
}

/** Spaces and their like are written as three octal digits. */
const unescape = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
