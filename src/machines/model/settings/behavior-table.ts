/**
 * Intentional changes of decisions of a released version, in order. A node applies the first ones of them, and its
 * journal has their number: see `behaviors.ts`.
 *
 * Invariants: an entry is added at the end and never removed or moved; it describes the decision before and since. A
 * new entry comes with tests of both decisions. Golden journals hold the old ones of some entries only.
 */
import { FIRST_BEHAVIORS } from './first-behaviors.ts';

export const BEHAVIORS = [
  ...FIRST_BEHAVIORS,
  {
    name: 'resizesJudgedAsKubelet',
    before:
      'A resize that waited for room was tried again when a pod ended, or after three minutes; one that exceeds the ' +
      'whole node was `Infeasible`. A resize of a critical pod waited for room, too.',
    since:
      'As in the kubelet, it is tried again also when a resize of another pod frees resources, and stays `Deferred` ' +
      'whatever it asks for; a critical pod preempts others.',
  },
  {
    name: 'volumesAwaited',
    before:
      'When the machine shut down, the next group of pods ended as soon as the containers of one had ended: drivers ' +
      'that are pods could not unmount its volumes.',
    since: 'As in the kubelet, it ends when these volumes are unmounted, too, or the time of the group is over.',
  },
  {
    name: 'podLifeAsKubelet',
    before:
      'All addresses of a sandbox were those of its pod. A pod whose sandbox was replaced was Running while its ' +
      'sidecars started again. Ephemeral containers had no part of the room for termination messages. That a ' +
      'container cannot be killed, or a pod not be evicted, was no event, and a replaced sandbox that cannot be stopped ' +
      'was one; events about failed starts named ids.',
    since:
      'As in the kubelet, a pod has one address of each family, is Pending until its sidecars have started in the new ' +
      'sandbox, and all its containers share the room. A failed kill of a container or sandbox of an ending pod is an ' +
      'event (`FailedKillPod`), with the name of what failed, and tried again with growing pauses; so is a pod that a ' +
      'manager of the node cannot end in time (`ExceededGracePeriod`). Events name containers instead of their ids.',
  },
  {
    name: 'networkAwaited',
    before:
      'Without a network on the node (`NetworkReady` of the runtime), the runtime was asked for a sandbox again and ' +
      'again, each time with an event (`FailedCreatePodSandBox`).',
    since:
      'As in the kubelet, a pod that needs a network waits for it, with the event `NetworkNotReady`, every ten to ' +
      'fifteen seconds. The kubelet records one each second.',
  },
  {
    name: 'nestedMounts',
    before:
      'A container that mounts a volume below a ConfigMap, a Secret, a downward API or a projected volume did not start: ' +
      'a runtime cannot create the folder for it in a read-only volume.',
    since: 'As in the kubelet, the folder is created with the volume.',
  },
  {
    name: 'expansionsAsKubelet',
    before:
      'A driver was asked to expand a volume that its controller had expanded alone, and a driver that cannot expand ' +
      'volumes on a node was a failure, also in the claim. A volume got the size of its PersistentVolume, and so did the ' +
      'status of its claim. A missing driver was a failure in the claim, and one that cannot expand a volume in use an ' +
      'event.',
    since:
      'As in the kubelet, such a volume is not expanded again, unless several nodes write to it; a volume and its claim ' +
      'get the size that was allocated to the claim; a missing driver is only an event, and a volume in use only a ' +
      'condition of its claim.',
  },
  {
    name: 'blockDevicesAsKubelet',
    before:
      'The driver of a block device was not told for which pod it publishes it, and got tokens of its service account.',
    since: 'As in the kubelet, it is told if `podInfoOnMount` asks for it, and gets no tokens.',
  },
  {
    name: 'swapOfNode',
    before: 'The Node did not say how much its machine can swap, and took it back from another kubelet.',
    since: 'As in the kubelet, `nodeInfo.swap` has the capacity.',
  },
  {
    name: 'overdueVolumesAsKubelet',
    before: 'An event named the volumes for which a pod had waited two minutes, and did so again each two minutes.',
    since: 'As in the kubelet 1.36, the log names them: a wait that is over its time is no event.',
  },
  {
    name: 'runtimeStateAsKubelet',
    before:
      'A runtime that could not be asked once, as during its restart, made the Node unready at once, with an error ' +
      'before those of PLEG; a runtime that was not ready lost the handlers that it had.',
    since:
      'As in the kubelet, the Node is unready when the runtime did not answer for thirty seconds (`container runtime ' +
      'is down`); what it answered follows the error of PLEG, and its handlers stay.',
  },
  {
    name: 'usersReleased',
    before: 'A pod with users of its own kept their ids until its folder was removed, long after it had ended.',
    since: 'As in the kubelet, they are free for other pods when the pod has ended.',
  },
  {
    name: 'imageDetailsAsKubelet',
    before:
      'Records of pulls and the allowlist of images that need no credential had the full name of an image ' +
      '(`docker.io/library/busybox`). Images were chosen for removal by the room that was needed: one that could not be ' +
      'removed was chosen again in each round, and no other one in its place.',
    since:
      'As in the kubelet, they have the name as the pod writes it (`busybox`), and in place of an image that cannot be ' +
      'removed the next ones are, until there is room.',
  },
  {
    name: 'groupsAsKubelet',
    before:
      'Huge pages: a container had none of its pod, groups of pods and daemons had no limit, and reserved ones were ' +
      'allocatable as memory. MemoryQoS: Burstable pods had `memory.min`, the memory of pods that are gone stayed ' +
      'protected, and that of daemons was not. systemd: slices of daemons with a dash in their name, and a configured ' +
      'root, were looked for in other places, and the group of all pods had no CPUs. Without groups of pods ' +
      '(`cgroupsPerQOS: false`), sandboxes were put below `cgroupRoot`.',
    since: 'Limits, paths, protection, CPUs, and the texts about all of this follow the kubelet.',
  },
  {
    name: 'certificatesAsKubelet',
    before:
      'A node with a client certificate that had expired long before its start ended as soon as the API server refused ' +
      'its request for another one. One with `serverTLSBootstrap` and a configured certificate served the latter for ' +
      'ever. A host name that is an address was requested as a name.',
    since:
      'As in the kubelet, such a certificate counts as none, and the node ends five minutes after its start. The ' +
      'configured one is served until another is issued, and such a host name is requested as an address.',
  },
  {
    name: 'devicesAsKubelet',
    before:
      'A plugin whose registration failed after it was accepted had to recreate its socket. Hints for the topology ' +
      'manager named nodes without such devices, too, and a plugin that gave its devices an empty list of nodes was ' +
      'taken to have them nowhere. Extended resources that no plugin offers were not counted at the admission of a pod.',
    since:
      'As since kubelet 1.36, it is registered again after a growing pause, hints name only nodes with devices, such a ' +
      'plugin has no preference, and a pod that requests more of a resource than is left is rejected.',
  },
  {
    name: 'networkVolumes',
    before:
      'A pod with a volume of NFS, or of a plugin that a CSI driver replaced (`awsElasticBlockStore` …), its own or behind ' +
      'a claim, waited without end (`FailedMount`).',
    since: 'As in the kubelet, the node mounts the first, and the driver that took the place of the plugin the other.',
  },
  {
    name: 'managersAsKubelet',
    before:
      'The Node kept the devices of an earlier start until their plugin registered, and for ever if it was gone, and ' +
      'on a machine that was installed anew those of the old one. A pod that exceeds the volumes of its node was ' +
      'rejected without their names. A node that does not count local storage was never ready. Pressure that was over ' +
      'when its settings changed stayed.',
    since:
      'As in the kubelet, such devices count as zero until a plugin offers them, the volumes are named, the node is ' +
      'ready, and pressure is reported anew.',
  },
  {
    name: 'containersAsKubelet',
    before:
      'The back-off of a container was forgotten after a run of twice its maximum, and only with another image. An init ' +
      'container with exit code 0 was done, even if the kernel had killed a process of it for lack of memory. That a ' +
      'pod cannot be inspected in the runtime was only logged. The restarts of a container that neither the runtime nor ' +
      'the agent knows began with 0.',
    since:
      'As in the kubelet, the back-off is forgotten after a run of ten minutes, and with other resources; such an init ' +
      'container runs again, unless its policy is `Never`; such a pod has the event `FailedSync`; and the numbers of the ' +
      'logs of such a container go on.',
  },
  {
    name: 'sourcesAsKubelet',
    before:
      'Of the pods of a list of the API server, those whose names come first were admitted first. `nominatedNodeName` ' +
      'stayed in the status of a pod. The end of a pod that has become too large for this node was not noticed.',
    since:
      'As in the kubelet, the oldest are admitted first, the field is removed with the first status, and any pod can be ' +
      'deleted.',
  },
  {
    name: 'configurationAsKubelet',
    before:
      'With `--cloud-provider=external` pods had the addresses of the machine as those of their host. The format of log ' +
      'lines was set after the first lines. Insecure cipher suites and parts of `--node-ip` that are no address were ' +
      'not reported.',
    since:
      'As in the kubelet, pods have the addresses of the Node, which the cloud provider sets; the format is set before ' +
      'the first line, and these mistakes are reported.',
  },
  {
    name: 'blockNetworkVolumes',
    before:
      'A pod with a volume of iSCSI or Fibre Channel, its own or behind a claim, waited with `FailedMount`: this agent ' +
      'could not set it up. `enableControllerAttachDetach: false` only removed the annotation of the Node.',
    since:
      'Such volumes are attached and mounted, as by the kubelet; with `enableControllerAttachDetach: false` without the ' +
      'controller of the cluster, which CSI drivers cannot do without.',
  },
  {
    name: 'longListsInPages',
    before: 'A list of pods that is longer than an answer may be was asked for again and again in the same way.',
    since: 'It is asked for in pages of 25 pods.',
  },
  {
    name: 'podDetailsAsKubelet',
    before:
      'A critical pod was admitted when the pods that it displaces had ended, or after a minute. Memory of NUMA nodes ' +
      'stayed with the init containers that had it. A pod that ran while its cgroup was missing went on outside of it. ' +
      'Readiness was probed in the period of the probe only. Failures to pull images were in the status of a pod ' +
      'without a sandbox. Users of its own in the network of the machine, and changes of a pod, were not compared with ' +
      'the features of the node, and old kernels were not warned of. With `MemoryQoS` a container without a limit was ' +
      'throttled below the allocatable memory.',
    since:
      'As in the kubelet, it waits for half as long again as their grace period, such memory is free when a later ' +
      'container runs, such a pod is restarted in its cgroup, what is not ready is probed at least once for each sync of ' +
      'its pod, the status of a pod without a sandbox names no failure of an image, these are compared, and such a ' +
      'container is throttled below the memory that all pods may use, which includes the eviction reserve.',
  },
  {
    name: 'bootstrapAsKubelet',
    before:
      'Without rotation each start until the first client certificate was issued made another key and another request, ' +
      'and ended if the API server did not answer or did not sign for a quarter of an hour.',
    since:
      'As in the kubelet, key and request are those of the earlier start, and the agent waits a minute for the server ' +
      'and an hour for the signature.',
  },
  {
    name: 'specsAsKubelet',
    before: 'After a restart of the machine a pod started with its devices, even if their plugin was not registered.',
    since: 'As in the kubelet, it is rejected with `UnexpectedAdmissionError`.',
  },
] as const;
