import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it('src/machines/model/api/cri.ts is what proto/cri/v1/api.proto says', async () => {
  const script = fileURLToPath(new URL('../../../scripts/generate-wire-types.ts', import.meta.url));
  await expect(promisify(execFile)(process.execPath, [script, '--check'])).resolves.toMatchObject({ stderr: '' });
});
