/**
 * A wall clock that a test can set for one process and its children: libfaketime, which leaves the monotonic clock
 * unchanged, like the kernel.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const LIBRARIES = '/usr/lib';

function library(): string | undefined {
  const places = existsSync(LIBRARIES) ? readdirSync(LIBRARIES) : [];
  return places.map((place) => join(LIBRARIES, place, 'faketime/libfaketime.so.1')).find((path) => existsSync(path));
}

/** Why no clock can be set here; `null` if it can. */
export const clocksAvailable = (): string | null =>
  library() === undefined ? `libfaketime is not below ${LIBRARIES} (Debian: libfaketime)` : null;

export class SetClock {
  readonly #file: string;

  /** `folder` must exist as long as the process runs. */
  constructor(folder: string) {
    this.#file = join(folder, 'clock');
    this.set(0);
  }

  /** The environment of a process with this clock. */
  get environment(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: library() ?? '',
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_RESET: '1',
    };
  }

  /** Sets the clock to the true time plus this number of seconds. */
  set(offsetSeconds: number): void {
    writeFileSync(this.#file, `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}\n`);
  }
}
