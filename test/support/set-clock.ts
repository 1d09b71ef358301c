/**
 * A wall clock that a test can set for one process and its children: libfaketime, which leaves the monotonic clock
 * alone, as the kernel does.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const LIBRARIES = '/usr/lib';

function library(): string | undefined {
  const places = existsSync(LIBRARIES) ? readdirSync(LIBRARIES) : [];
  return places.map((place) => join(LIBRARIES, place, 'faketime/libfaketime.so.1')).find((path) => existsSync(path));
}

/** Why no clock can be set here; `null` when it can. */
export const clocksAvailable = (): string | null =>
  library() === undefined ? `libfaketime is not below ${LIBRARIES} (Debian: libfaketime)` : null;

export class SetClock {
  readonly #file: string;

  /** `folder` has to live as long as the process. */
  constructor(folder: string) {
    this.#file = join(folder, 'clock');
    this.set(0);
  }

  /** Of a process that has this clock. */
  get environment(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: library() ?? '',
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_RESET: '1',
    };
  }

  /** So many seconds away from the true time, from now on. */
  set(offsetSeconds: number): void {
    writeFileSync(this.#file, `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}\n`);
  }
}
