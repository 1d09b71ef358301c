/** Manifests are accepted and rejected as by the Go kubelet 1.36.2, with its texts: `test/golden/manifests`. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { staticPod } from '../../../../src/machines/model/pods/static-pod.ts';

interface Recorded {
  readonly id: string;
  readonly metadata: object;
  readonly spec: object;
  readonly verdict: 'accepted' | 'refused';
  /** The errors of the validation; absent if the manifest was rejected before or after it. */
  readonly errors?: readonly string[];
}

const file = `${import.meta.dirname}/../../../golden/manifests/kubelet-1.36.2.ndjson`;
const records: readonly Recorded[] = readFileSync(file, 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));

const HARDENED_GIT = 'such a volume is never mounted: it is refused with what to use instead';
const HARDENED_PROFILE = 'no container of such a pod can be made: it is refused with the reason';
const LARGE = 'no node has so much; such a number would cost time and memory';
/** Manifests that this agent treats differently, with the reason. */
const OTHERWISE: Readonly<Record<string, string>> = {
  vo_git1: HARDENED_GIT,
  co124: LARGE,
  co201: HARDENED_PROFILE,
};

const GIT = 'gitRepo volumes are refused with what to use instead';
const GO_VALUE = 'upstream shows its own structure; here the field is shown as it was written';
const MISSPELLED = 'upstream names the field in another spelling than the API';
const FURTHER = 'upstream adds an error that follows from another one';
/** Manifests that are rejected with another text, with the reason. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  vol2: GIT,
  vo_git2: GIT,
  vo_git3: GIT,
  ct2: GO_VALUE,
  se7: GO_VALUE,
  co197: GO_VALUE,
  co220: GO_VALUE,
  vo_two: MISSPELLED,
  vo_two2: MISSPELLED,
  vn3: FURTHER,
  vo_sec2: FURTHER,
  eph2: 'a manifest with ephemeral containers is refused; what is wrong with them does not matter',
  vo_ep5: 'where the content of a claim comes from is not looked at: a static pod may have no such volume',
  md31: "the words of Go's reader of JSON",
};

const verdictOn = ({ metadata, spec, id }: Recorded) =>
  staticPod(
    { file: id, uid: 'u1', value: JSON.parse(JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec })) },
    'peers',
    true,
  );

/**
 * In Go, printed pointers have `&` before them; references to the API are checked last, and only without other errors.
 */
const upstreams = (errors: readonly string[]) =>
  errors.map((error) => error.replace('Invalid value: &', 'Invalid value: '));
const isOfValidation = (error: string) => !/static pods may not reference|^unknown source for/.test(error);

it('of several hundred manifests, a fourth is accepted', () => {
  expect(records.length).toBeGreaterThan(700);
  expect(records.filter(({ verdict }) => verdict === 'accepted').length).toBeGreaterThan(150);
});

describe('the verdict is', () => {
  it.each(records.filter(({ id }) => OTHERWISE[id] === undefined))('$verdict of $id', (record) => {
    const { errors } = verdictOn(record);
    expect(errors === undefined ? 'accepted' : 'refused', errors?.join('\n')).toBe(record.verdict);
  });

  it.each(Object.entries(OTHERWISE))('another one of %s: %s', (id) => {
    expect(verdictOn(records.find((each) => each.id === id)!).errors).toHaveLength(1);
  });
});

describe('the errors of a refused manifest are', () => {
  const worded = records.filter(({ id, errors }) => errors !== undefined && OTHER_WORDS[id] === undefined);

  it.each(worded)('those of $id', (record) => {
    const own = (verdictOn(record).errors ?? []).filter(isOfValidation);
    expect(own.toSorted()).toEqual(upstreams(record.errors ?? []).toSorted());
  });

  it.each(Object.entries(OTHER_WORDS))('others of %s: %s', (id) => {
    const record = records.find((each) => each.id === id)!;
    const own = (verdictOn(record).errors ?? []).filter(isOfValidation);
    expect(own.toSorted()).not.toEqual(upstreams(record.errors ?? []).toSorted());
  });
});
