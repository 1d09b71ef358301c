import { expect, it } from 'vitest';
import { strategicPatch } from '../../../../src/machines/model/api/strategic-patch.ts';

const keys = { 'status.conditions': 'type' };

it('is null when nothing changed, whatever the order of fields', () => {
  expect(strategicPatch({ status: { a: 1, b: [2] } }, { status: { b: [2], a: 1 } }, keys)).toBeNull();
});

it('names the order of a merged list and only the fields of the entries that changed', () => {
  const before = {
    status: {
      conditions: [
        { type: 'Ready', status: 'False', message: 'm' },
        { type: 'Disk', status: 'False' },
      ],
    },
  };
  const after = {
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'Disk', status: 'False' },
      ],
    },
  };
  expect(strategicPatch(before, after, keys)).toEqual({
    status: {
      '$setElementOrder/conditions': [{ type: 'Ready' }, { type: 'Disk' }],
      conditions: [{ status: 'True', message: null, type: 'Ready' }],
    },
  });
});

it('deletes the entry of a merged list by its key', () => {
  const before = { status: { conditions: [{ type: 'A' }, { type: 'B' }] } };
  expect(strategicPatch(before, { status: { conditions: [{ type: 'B' }] } }, keys)).toEqual({
    status: { '$setElementOrder/conditions': [{ type: 'B' }], conditions: [{ $patch: 'delete', type: 'A' }] },
  });
});

it('sends a list without a merge key whole, and a list that was not there as it is', () => {
  expect(strategicPatch({ status: { images: [1, 2] } }, { status: { images: [1] } }, keys)).toEqual({
    status: { images: [1] },
  });
  expect(strategicPatch({ status: {} }, { status: { conditions: [{ type: 'A' }] } }, keys)).toEqual({
    status: { conditions: [{ type: 'A' }] },
  });
});

it('says null for a field that is gone', () => {
  expect(strategicPatch({ status: { a: 1 } }, { status: {} }, keys)).toEqual({ status: { a: null } });
});

it('sees no difference between an empty list and what a server in Go says of one', () => {
  expect(strategicPatch({ spec: { drivers: null, taints: [] } }, { spec: { drivers: [], other: [] } }, {})).toBeNull();
  expect(strategicPatch({ spec: { drivers: null } }, { spec: { drivers: [{ name: 'a' }] } }, {})).toEqual({
    spec: { drivers: [{ name: 'a' }] },
  });
});
