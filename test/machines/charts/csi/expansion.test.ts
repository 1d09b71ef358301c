/** A volume that has become too small, in a modelled world: Z1 to Z3 of `csiExpansionMachine`. */
import { afterEach, describe, expect, it } from 'vitest';
import { fail } from '../../../support/answering-world.ts';
import { csiNode, DRIVER, type Options, ROOT, volumeOf } from './support.ts';

type Node = ReturnType<typeof csiNode>;
let node: Node;

const CLAIM = { namespace: 'default', name: 'data', uid: 'c1' };
const CAPABILITIES = ['EXPAND_VOLUME', 'STAGE_UNSTAGE_VOLUME'];
const PENDING = { allocatedResources: { storage: '2Gi' }, allocatedResourceStatuses: { storage: 'NodeResizePending' } };
const CONDITION = { type: 'FileSystemResizePending', status: 'True' };
const OTHER = { type: 'Other', status: 'True' };

const claimOf = (status: object) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data', namespace: 'default', uid: 'c1', resourceVersion: '7' },
  spec: { resources: { requests: { storage: '2Gi' } } },
  status: { capacity: { storage: '1Gi' }, conditions: [OTHER, CONDITION], ...status },
});
const sized = (wanted: string, had: string, status = '') => volumeOf({ size: { claim: CLAIM, wanted, had, status } });

function boot(options: Options & { readonly status?: object } = {}): Node {
  node = csiNode(options);
  node.disk.capabilities = CAPABILITIES;
  node.knobs.claim = claimOf(options.status ?? PENDING) as never;
  return node;
}
/** A volume in use that is then expanded. */
function grow(options: Parameters<typeof boot>[0] = {}): Node {
  boot(options).want('u1', sized('1Gi', '1Gi'));
  node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
  return node;
}
const failing = (code: string, message = 'rpc error: code = X desc = no') => {
  node.knobs.fault = (name) => (name === 'csi.expand' ? fail(message, code) : undefined);
};
const claim = () => node.knobs.claim as unknown as ReturnType<typeof claimOf> & { status: Record<string, unknown> };
const patches = () => node.askedFor('kube.patch').map(({ body }: { body: object }) => body);
const mounted = () => node.toPods().filter(({ type }) => type === 'csi.mounted').length;
const FAILED = 'NodeExpandVolume.NodeExpandVolume failed for volume "pv1" : ';
const DONE = 'MountVolume.NodeExpandVolume succeeded for volume "pv1" node1';

afterEach(() => expect(node.divergence()).toBeNull());

describe('a volume in use', () => {
  it('is expanded where its containers use it, and its claim is told before and after', () => {
    grow();
    expect(node.disk.expanded).toEqual([
      {
        volume_id: 'h1',
        volume_path: `${ROOT}/pods/u1/volumes/kubernetes.io~csi/pv1/mount`,
        capacity_range: { required_bytes: String(2 * 1024 ** 3) },
        staging_target_path: expect.stringMatching(new RegExp(`^${ROOT}/plugins/kubernetes.io/csi/.*/globalmount$`)),
        volume_capability: {
          mount: { fs_type: '', mount_flags: [], volume_mount_group: '' },
          access_mode: { mode: 'SINGLE_NODE_WRITER' },
        },
        secrets: {},
      },
    ]);
    expect(patches()).toEqual([
      {
        metadata: { resourceVersion: '7' },
        status: { allocatedResourceStatuses: { storage: 'NodeResizeInProgress' } },
      },
      {
        metadata: { resourceVersion: '7' },
        status: {
          capacity: { storage: '2Gi' },
          allocatedResourceStatuses: null,
          conditions: [{ $patch: 'delete', type: 'FileSystemResizePending' }],
        },
      },
    ]);
    expect(claim().status).toMatchObject({ capacity: { storage: '2Gi' }, conditions: [OTHER] });
    expect(claim().status).not.toHaveProperty('allocatedResourceStatuses');
    expect(node.events()).toEqual([DONE, DONE]);
  });

  it('is expanded once for each size', () => {
    grow();
    node.want('u1', sized('2Gi', '2Gi'));
    expect(node.disk.expanded).toHaveLength(1);
    const allocatedResources = { storage: '3Gi' };
    node.knobs.claim = claimOf({ ...PENDING, allocatedResources, capacity: { storage: '2Gi' } }) as never;
    node.want('u1', sized('3Gi', '2Gi', 'NodeResizePending'));
    expect(node.disk.expanded.map(({ capacity_range }) => capacity_range.required_bytes)).toEqual([
      String(2 * 1024 ** 3),
      String(3 * 1024 ** 3),
    ]);
  });

  it('of several pods is expanded by one of them, and by the other one when that is over', () => {
    boot();
    node.want('u1', sized('1Gi', '1Gi'));
    node.want('u2', sized('1Gi', '1Gi'));
    failing('INTERNAL');
    for (const uid of ['u1', 'u2']) node.want(uid, sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(node.askedFor('csi.expand')).toHaveLength(1);
    node.release('u1');
    node.knobs.fault = () => undefined;
    node.advance(600);
    expect(node.disk.expanded.map(({ volume_path }) => volume_path)).toEqual([
      `${ROOT}/pods/u2/volumes/kubernetes.io~csi/pv1/mount`,
    ]);
    node.want('u2', sized('2Gi', '2Gi'));
    node.advance(600_000);
    expect(node.disk.expanded).toHaveLength(1);
  });

  it('is left alone while it is not this node’s turn', () => {
    grow({ status: { allocatedResources: { storage: '2Gi' }, allocatedResourceStatuses: { storage: 'Other' } } });
    node.advance(600_000);
    expect([node.disk.expanded, patches(), node.events()]).toEqual([[], [], []]);
    expect(node.askedFor('kube.get')).toHaveLength(1);
    node.knobs.claim = claimOf(PENDING) as never;
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizeInProgress'));
    expect(node.disk.expanded).toHaveLength(1);
  });

  describe('that the claim already has', () => {
    const DONE_ELSEWHERE = { ...PENDING, allocatedResourceStatuses: {}, capacity: { storage: '2Gi' } };
    const shared = (annotations = {}) => {
      boot({ status: DONE_ELSEWHERE });
      const { metadata, spec, ...rest } = claim();
      node.knobs.claim = {
        ...rest,
        metadata: { ...metadata, annotations },
        spec: { ...spec, accessModes: ['ReadWriteMany'] },
      } as never;
    };
    const enlarge = () => {
      node.want('u1', sized('1Gi', '1Gi'));
      node.want('u1', sized('2Gi', '2Gi'));
      node.advance(600_000);
    };

    it('is not expanded: its controller did it alone', () => {
      boot({ status: DONE_ELSEWHERE });
      enlarge();
      expect([node.disk.expanded, patches(), node.events()]).toEqual([[], [], []]);
      expect(node.askedFor('kube.get')).toHaveLength(1);
    });

    it('and that several nodes write to is expanded by each, and the claim is not updated', () => {
      shared();
      enlarge();
      expect(node.disk.expanded).toHaveLength(1);
      expect([patches(), node.events()]).toEqual([[], [DONE, DONE]]);
    });

    it('is not expanded where its controller says that no node has to', () => {
      shared({ 'volume.kubernetes.io/node-expansion-not-required': 'true' });
      enlarge();
      expect([node.disk.expanded, patches(), node.events()]).toEqual([[], [], []]);
    });

    it('is no failure of a driver that does not expand', () => {
      shared();
      node.disk.capabilities = ['STAGE_UNSTAGE_VOLUME'];
      enlarge();
      expect([patches(), node.events()]).toEqual([[], []]);
    });
  });

  it('gets the size that was allocated to its claim, and so does the claim', () => {
    boot({ status: { ...PENDING, allocatedResources: { storage: '1536Mi' } } });
    node.want('u1', sized('1Gi', '1Gi'));
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(node.disk.expanded[0]!.capacity_range).toEqual({ required_bytes: String(1_536 * 1024 ** 2) });
    expect(claim().status).toMatchObject({ capacity: { storage: '1536Mi' } });
    node.want('u1', sized('2Gi', '1536Mi'));
    node.advance(600_000);
    expect(node.disk.expanded).toHaveLength(1);
  });

  it('of a controller that says nothing of its steps is not expanded by a driver that cannot', () => {
    boot({ status: { conditions: [CONDITION] } });
    node.disk.capabilities = ['STAGE_UNSTAGE_VOLUME'];
    node.want('u1', sized('1Gi', '1Gi'));
    node.want('u1', sized('2Gi', '1Gi'));
    node.advance(600_000);
    expect([patches(), node.events()]).toEqual([[], []]);
  });

  it('of a controller that says nothing of its steps is expanded, and its claim is told at the end', () => {
    grow({ status: { conditions: [CONDITION] } });
    expect(node.disk.expanded).toHaveLength(1);
    expect(patches()).toHaveLength(1);
    expect(claim().status).toMatchObject({ capacity: { storage: '2Gi' }, conditions: [] });
  });

  it('has the secret that it names', () => {
    boot();
    const expandSecret = { name: 'expand', namespace: 'vault' };
    node.want('u1', { ...sized('1Gi', '1Gi'), expandSecret });
    node.want('u1', { ...sized('2Gi', '1Gi', 'NodeResizePending'), expandSecret });
    expect(node.askedFor('kube.get').at(-1)).toMatchObject(expandSecret);
    expect(node.disk.expanded[0]!.secrets).toEqual({ key: { text: expect.objectContaining({ len: 3 }) } });
  });

  it('of an agent that starts anew is expanded when it was not', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    expect(node.divergence()).toBeNull();
    const { disk } = node;
    const calls = [...disk.calls];
    boot({ disk }).want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(node.disk.calls.slice(calls.length)).toEqual(['stage h1', 'publish h1', 'expand h1']);
  });
});

describe('a volume that containers wait for', () => {
  it('is expanded first', () => {
    boot();
    failing('INTERNAL', 'rpc error: code = Internal desc = disk is busy');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(mounted()).toBe(0);
    expect(node.events()).toEqual([
      'MountVolume.Setup failed while expanding volume for volume "pv1" : Expander.NodeExpand failed to expand the ' +
        'volume : rpc error: code = Internal desc = disk is busy',
    ]);
    node.knobs.fault = () => undefined;
    node.advance(500);
    expect(mounted()).toBe(1);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'expand h1']);
  });

  it('is used as it is where it is not the node’s turn', () => {
    boot({ status: { ...PENDING, allocatedResourceStatuses: { storage: 'NodeResizeInfeasible' } } });
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizeInfeasible'));
    expect([mounted(), node.disk.expanded, node.events()]).toEqual([1, [], []]);
  });

  it('that is read-only is used as it is, and its user is told', () => {
    boot();
    node.want('u1', { ...sized('2Gi', '1Gi', 'NodeResizePending'), readOnly: true });
    const text = 'MountVolume.NodeExpandVolume failed for volume "pv1" requested read-only file system';
    expect([mounted(), node.disk.expanded, node.events()]).toEqual([1, [], [text, text]]);
  });

  it('is taken away when its pod ends', () => {
    boot();
    failing('INTERNAL');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    node.release('u1');
    expect(node.toPods().at(-1)).toEqual({ type: 'csi.unmounted', uid: 'u1' });
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'unpublish h1', 'unstage h1']);
  });
});

describe('a failure', () => {
  const error = (message: string) => ({
    type: 'NodeResizeError',
    status: 'True',
    lastTransitionTime: expect.stringMatching(/Z$/),
    message: `failed to expand pvc with ${message}`,
  });

  it('of the driver is an event and a condition of the claim, and tried again with upstream’s pauses', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    failing('INTERNAL', 'rpc error: code = Internal desc = no');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    const text = 'Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = no';
    expect(node.events()).toEqual([`${FAILED}${text}`]);
    expect(claim().status.conditions).toContainEqual(error(text));
    node.advance(499);
    expect(node.askedFor('csi.expand')).toHaveLength(1);
    node.advance(1);
    expect(node.askedFor('csi.expand')).toHaveLength(2);
    expect(patches()).toHaveLength(2);
    node.knobs.fault = () => undefined;
    node.advance(1_000);
    expect(claim().status).toMatchObject({ capacity: { storage: '2Gi' }, conditions: [OTHER] });
  });

  it('that may not be the end is no condition of the claim', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    failing('DEADLINE_EXCEEDED');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(claim().status.conditions).toEqual([OTHER, CONDITION]);
    expect(node.events()).toHaveLength(1);
  });

  it.each(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND'])('of %s is infeasible, and not tried again', (code) => {
    boot().want('u1', sized('1Gi', '1Gi'));
    failing(code, 'rpc error: code = X desc = never');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    node.advance(600_000);
    const text = 'Expander.NodeExpand failed to expand the volume rpc error: code = X desc = never';
    expect(node.askedFor('csi.expand')).toHaveLength(1);
    expect(claim().status['allocatedResourceStatuses']).toEqual({ storage: 'NodeResizeInfeasible' });
    expect(claim().status.conditions).toContainEqual(error(text));
    expect(node.events()).toEqual([`${FAILED}${text}`]);
  });

  it('of a driver that cannot while the volume is in use is told to the claim only, once', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    failing('FAILED_PRECONDITION', 'rpc error: code = FailedPrecondition desc = in use');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizeInProgress'));
    node.advance(600_000);
    expect(node.askedFor('csi.expand')).toHaveLength(1);
    expect(node.events()).toEqual([]);
    expect(claim().status.conditions).toContainEqual(
      error('Expander.NodeExpand failed to expand the volume : rpc error: code = FailedPrecondition desc = in use'),
    );
  });

  it('after which the user asks for another size is the controller’s to decide', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    failing('INTERNAL');
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    const spec = { resources: { requests: { storage: '1536Mi' } } };
    node.knobs.claim = { ...claim(), spec } as never;
    node.advance(500);
    expect(claim().status['allocatedResourceStatuses']).toEqual({ storage: 'NodeResizeInfeasible' });
  });

  it('of a driver that does not expand says so', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    node.disk.capabilities = ['STAGE_UNSTAGE_VOLUME'];
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    const text = `NodeExpand is not supported by the CSI driver ${DRIVER}`;
    expect(node.events()).toEqual([`${FAILED}${text}`]);
    expect(claim().status.conditions).toContainEqual(error(text));
  });

  it.each([
    ['kube.get', 'mountVolume.NodeExpandVolume get PVC failed : broken'],
    ['kube.patch', 'patchPVCStatus failed to patch PVC "data": broken'],
  ])('of %s asks no driver, and is tried again', (name, text) => {
    boot().want('u1', sized('1Gi', '1Gi'));
    node.knobs.fault = (each) => (each === name ? fail('broken') : undefined);
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(node.events()).toEqual([`${FAILED}${text}`]);
    expect(node.disk.expanded).toEqual([]);
    node.knobs.fault = () => undefined;
    node.advance(500);
    expect(claim().status).toMatchObject({ capacity: { storage: '2Gi' } });
  });

  it('to reach the driver ends when it registers', () => {
    boot().want('u1', sized('1Gi', '1Gi'));
    node.send({ type: 'csi.driverGone', name: DRIVER });
    node.want('u1', sized('2Gi', '1Gi', 'NodeResizePending'));
    expect(node.events()).toEqual([`${FAILED}driver name ${DRIVER} not found in the list of registered CSI drivers`]);
    expect(claim().status.conditions).toEqual([OTHER, CONDITION]);
    node.listen();
    expect(node.disk.expanded).toHaveLength(1);
  });
});

it('a volume of which no size is known is not expanded', () => {
  boot().want('u1', sized('2Gi', ''));
  node.want('u1', volumeOf({ size: { claim: CLAIM, wanted: 'large', had: '1Gi', status: '' } }));
  node.advance(600_000);
  expect(node.disk.expanded).toEqual([]);
});
