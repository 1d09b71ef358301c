/** The CRI contract, checked on containerd and on the embedded runtime. */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startEmbeddedRuntime } from '../../src/actors/embedded-runtime/embedded-runtime.ts';
import { containerdAvailable, startContainerd } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { describeRuntime } from './cri-suite.ts';

describeRuntime(
  { name: 'containerd', start: startContainerd, isolates: true },
  requirement('containerd', containerdAvailable()).skip,
);

describeRuntime(
  {
    name: 'embedded',
    isolates: false,
    start: async () => {
      // Not below tmpdir(), because the path of a socket has at most 107 characters.
      const directory = await mkdtemp('/tmp/statelet-embedded-');
      const runtime = await startEmbeddedRuntime({
        socket: join(directory, 'runtime.sock'),
        rootDir: join(directory, 'root'),
      });
      const close = async () => {
        await runtime.close();
        await rm(directory, { recursive: true, force: true });
      };
      return { endpoint: runtime.endpoint, image: 'statelet.local/host:latest', close };
    },
  },
  false,
);
