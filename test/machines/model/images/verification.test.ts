/** Whether a pod may use an image that is present. */
import { expect, it } from 'vitest';
import { admittedByRecord } from '../../../../src/machines/model/images/verification.ts';

it('the record of an image says nothing about one named like what every object has', () => {
  const record = { busybox: { nodePodsAccessible: true, secrets: [] } };
  const admitted = (name: string) =>
    admittedByRecord({ policy: 'AlwaysVerify', allowlist: [] }, name, { intended: false, record });
  expect(['busybox', 'constructor'].map(admitted)).toEqual([true, false]);
});
