/**
 * `volume.readVariables`: what files in the volumes of a pod have for the variables of its containers.
 *
 * Containers wrote these files: a path is walked as a sub-path is, and what it leads to is read only when it is a plain
 * file of a bearable size. Invariants: a value leaves as a handle; why a file could not be read is not for the pod.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Vault } from '../../kernel/journal/index.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import type { FileValues, FileVariable, Unprepared, volumeOperations } from '../../machines/model/operations/volume.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { valueInEnvFile } from './env-file.ts';
import { openSubPath } from './sub-path.ts';
import { fdPath } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.readVariables']>;

/** A container has no more room for all of its variables than this (the kernel's limit of arguments), bytes. */
const FILE_BYTES_MAX = 2 * 1024 * 1024;

export async function readVariables(
  { variables }: Input,
  vault: Vault,
  signal: AbortSignal,
): Promise<{ values: Readonly<Record<string, FileValues>>; failed: Readonly<Record<string, Unprepared>> }> {
  const values: Record<string, Record<string, FileValues[string]>> = {};
  const failed: Record<string, Unprepared> = {};
  for (const variable of variables) {
    const { container, env } = variable;
    try {
      signal.throwIfAborted();
      (values[container] ??= {})[env] = await valueOf(variable, vault);
    } catch (error) {
      failed[container] ??= unprepared(error);
    }
  }
  return { values, failed };
}

/** The key is not in the file: that much the pod's author may know. */
class KeyMissing extends Error {}

function unprepared(error: unknown): Unprepared {
  const why = error instanceof Error ? error.message : String(error);
  return { message: error instanceof KeyMissing ? why : "couldn't parse env file", why };
}

async function valueOf({ volumePath, path, key, optional }: FileVariable, vault: Vault): Promise<FileValues[string]> {
  const text = await boundedCall(`file ${path} of ${volumePath}`, () => textOf(volumePath, path));
  const value = valueInEnvFile(text, key);
  if (value !== '') return vault.seal(value);
  if (optional) return null;
  const file = JSON.stringify(`${volumePath}/${path}`);
  throw new KeyMissing(`environment variable key ${JSON.stringify(key)} not found in file ${file}`);
}

async function textOf(volumePath: string, path: string): Promise<string> {
  const found = await openSubPath(volumePath, path, false);
  try {
    const { size } = await plainFile(found);
    if (size > FILE_BYTES_MAX) {
      throw new OperationError(`${path} has ${size} bytes; no more than ${FILE_BYTES_MAX} are read`, { code: 'EFBIG' });
    }
    const file = await open(fdPath(found), constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } finally {
    await found.close();
  }
}

async function plainFile(handle: Awaited<ReturnType<typeof openSubPath>>) {
  const stats = await handle.stat();
  if (!stats.isFile()) throw new OperationError('it is not a plain file', { code: 'EINVAL' });
  return stats;
}
