/**
 * Prints at the end of every test run which tiers could not run on this machine, and why. vitest calls the returned
 * function after the last test.
 */
import { existsSync } from 'node:fs';
import { realClusterMissing } from './cluster.ts';
import { containerdAvailable } from './containerd.ts';
import { registryAvailable } from './registry.ts';

const CHROMIUM = '/usr/bin/chromium';

const tiers: Readonly<Record<string, () => string | null>> = {
  containerd: containerdAvailable,
  'kube-apiserver (the test API server stands in)': realClusterMissing,
  registry: registryAvailable,
  browser: () => (existsSync(CHROMIUM) ? null : `${CHROMIUM} is not installed (Debian: chromium)`),
};

export default function setup(): () => void {
  return () => {
    const missing = Object.entries(tiers).flatMap(([name, probe]) => {
      const reason = probe();
      return reason === null ? [] : [`  ${name}: ${reason}`];
    });
    if (missing.length > 0) console.log(`\nNot run on this machine:\n${missing.join('\n')}`);
  };
}
