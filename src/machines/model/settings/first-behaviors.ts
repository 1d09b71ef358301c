/**
 * The first changes of decisions, in order. This list is complete: a new change is added to
 * `behavior-table.ts`.
 */
export const FIRST_BEHAVIORS = [
  {
    name: 'impossibleProbeEachPeriod',
    before: 'A probe of a port that the container does not have was reported by one event.',
    since: 'It is reported in each period of the probe, as by the kubelet.',
  },
  {
    name: 'eventsOfEachType',
    before: '25 events about one object were written at once, later ones at a low rate.',
    since:
      'The limit counts for each type of event, as in the kubelet: warnings do not use up the tokens of normal ' +
      'events.',
  },
  {
    name: 'resourcesAsKubelet',
    before:
      'Exclusive CPUs were chosen, pinned and limited by rules of this agent. State files of another kubelet ' +
      'were not read. A pod that found no room at a start was rejected before the other pods of the node were ' +
      'known.',
    since: 'All of this follows the kubelet.',
  },
  {
    name: 'resizeConditionsEnd',
    before: 'An ended pod kept the condition of its pending resize.',
    since: 'The end of a pod removes it, as in the kubelet.',
  },
  {
    name: 'nodeAsKubelet',
    before:
      'After a restart no event reported the conditions of the Node. Labels that other clients removed were ' +
      'restored only at the next start, and conditions that they changed were restored without events. A lease ' +
      'of another holder was taken over.',
    since: 'All of this follows the kubelet.',
  },
  {
    name: 'dynamicResources',
    before: 'Pods with ResourceClaims waited forever, because resource drivers were not registered.',
    since: 'The drivers of this node prepare the claims, as for the kubelet.',
  },
  {
    name: 'resourcesLimited',
    before:
      'The resources of device plugins, the objects of a pod and its ephemeral containers had no limit, and all ' +
      'objects of a pod were requested in one turn.',
    since:
      'A node registers plugins of 128 resources and logs further ones; it accepts pods with 500 objects and ' +
      '2,000 containers, and requests 50 objects of a pod in a turn.',
  },
  {
    name: 'imagesAsKubelet',
    before:
      'An image that must not be pulled was looked up again after five minutes. A pull that waited for its turn ' +
      'was not reported by an event. The status of a container whose image has no tag showed the image as its ' +
      'pod names it. Unused images were removed even if the agent had run for less than the minimum age. The ' +
      'age of an image counted from its first container. Images of volumes that no container mounts were not ' +
      'pulled.',
    since:
      'As in the kubelet: it is looked up after ten seconds, `Pulling` is recorded at once, the status shows ' +
      'the name of the runtime, unused images stay for the minimum age after a start, the age counts from the ' +
      'last container, and every image of a pod is pulled.',
  },
  {
    name: 'evictionAsKubelet',
    before:
      'The Event of an eviction had no annotations. The leftovers of an evicted pod stayed until the pod was ' +
      'deleted. After a restart a node under pressure reported none until it had observed it.',
    since:
      'As in the kubelet, the annotations name the starved resource and the usage of each container. The ' +
      'leftovers are removed within a minute. After a restart the reported pressure stays until it can be ' +
      'observed.',
  },
  {
    name: 'hooksAsKubelet',
    before:
      'A postStart hook that cannot run was reported as a failed command, and a failed command with all of its ' +
      'output.',
    since: 'As in the kubelet, the report says why the hook cannot run, or has the error of the command.',
  },
  {
    name: 'alphaCpuOptions',
    before: 'The alpha options of the static CPU policy ended the start.',
    since: 'They are implemented.',
  },
  {
    name: 'podsAsKubelet',
    before:
      'The status of a pod showed the wanted resources, even if a resize to them was not complete. A pod whose ' +
      'deadline had passed when the agent started got a new sandbox before it ended. Manifests were not checked ' +
      'for combinations of newer fields, or for fields that only other components read; a manifest that ' +
      'declares itself a mirror pod was mirrored. Sidecars were restarted while the last regular container ' +
      'stopped.',
    since:
      'As in the kubelet, the status shows the resources in effect; such a pod gets no sandbox; manifests are ' +
      'checked and completed, and no mirror pod is mirrored; sidecars are not restarted at that time.',
  },
  {
    name: 'addressesAsKubelet',
    before:
      'Without `--node-ip` the address of a node was the first of the machine, even if a cloud provider sets ' +
      'it. The address of `--node-ip` was used without a check that the machine has it. Labels of zone, region ' +
      'and instance type in `--node-labels` applied to new Nodes only.',
    since:
      "As in the kubelet, the address is that of the node's name or of the default route, or is left to the " +
      'cloud provider; an address that the machine does not have is rejected; these labels are applied at each ' +
      'start.',
  },
  {
    name: 'deadContainersAsKubelet',
    before: 'Surplus dead instances of a container were removed in the next round, within two minutes.',
    since: 'They are removed when another instance dies, as in the kubelet.',
  },
  {
    name: 'allocationsHandedOver',
    before:
      'A pod of another kubelet was admitted with its requested resources, even if a resize to them had not ' +
      'been granted.',
    since:
      "It is admitted with the resources that the kubelet's files record as granted; these files are also " +
      'written.',
  },
  {
    name: 'csiFailuresAsKubelet',
    before:
      'The error for an unreadable secret of a CSI driver had neither its name nor its namespace. Nothing was ' +
      'reported if the Node listed a volume as attached and its VolumeAttachment did not.',
    since: 'Both errors have the texts of the kubelet.',
  },
  {
    name: 'pullsAsKubelet',
    before:
      'During a pull, a container with the policy `IfNotPresent` waited for it, and failed with it, even if it was ' +
      'allowed to use the present image. No `Pulling` was recorded for a container that joined a pull.',
    since: 'As in the kubelet, such a container starts at once; `Pulling` is recorded for each container that waits.',
  },
  {
    name: 'removalsAsKubelet',
    before: 'If a dead container could not be removed, an event of the Node (`ContainerGCFailed`) reported it.',
    since: 'As in the kubelet, only the log reports it; the removal is tried again.',
  },
  {
    name: 'driversWithoutTopology',
    before:
      'The entry of a CSI driver without topology keys never counted as written, because a real API server answers an ' +
      'empty list with `null`. After a minute the driver was rejected.',
    since: 'The two are the same, and the driver is registered.',
  },
  {
    name: 'driversOnNode',
    before: 'The Node had neither the topology labels of CSI drivers nor the annotation with their names for it.',
    since: 'As in the kubelet, both are written before a driver is registered.',
  },
  {
    name: 'conditionsOnce',
    before:
      'If the Node changed while a changed condition was being written, the event about it (`NodeReady`) was recorded ' +
      'again.',
    since: 'It is recorded once.',
  },
  {
    name: 'driversAwaited',
    before:
      'Volumes of CSI drivers failed (`FailedMount`) at each start of the agent until their driver had registered.',
    since: 'Drivers that an earlier agent used have five seconds to register before their volumes fail.',
  },
  {
    name: 'relistAwaited',
    before:
      'A ready Node was reported as not ready at a start of the agent if the CSINode was known before the first relist ' +
      'was complete.',
    since: 'Its first status waits for the relist, up to thirty seconds.',
  },
  {
    name: 'retriesAsKubelet',
    before:
      'A failed resize was tried again after a second, then after two, four and ten; an image name that does not parse ' +
      'was reported once in five minutes.',
    since: 'As in the kubelet, both are tried again, and reported, after ten to fifteen seconds.',
  },
  {
    name: 'sandboxResizedFirst',
    before:
      'At a resize, the cgroup of the pod changed before the runtime was told; its refusal was logged, and the resize ' +
      'went on.',
    since:
      'As in the kubelet, the runtime is told first, and may refuse the resize; if the cgroup cannot be changed, the ' +
      'runtime is told the former resources.',
  },
  {
    name: 'softGraceAsKubelet',
    before: 'A soft eviction left a pod `evictionMaxPodGracePeriod`, also if its own grace period is shorter.',
    since: 'As in the kubelet, it leaves the shorter of both.',
  },
  {
    name: 'podsInPortions',
    before:
      'All new pods of a list, from the API server or from manifests, were started in one turn, and nothing else was ' +
      'decided meanwhile. With each pod of the API server that came or went, the uids of all were published.',
    since:
      'Ten pods are started in a turn. Only the uids of pods that come and go are published, and all after a list.',
  },
  {
    name: 'podCIDROfConfiguration',
    before: '`podCIDR` of the configuration was not used: only the CIDRs of the Node reached the runtime.',
    since: 'As in the kubelet, the runtime gets it at the start, with and without an API server.',
  },
  {
    name: 'tolerationOfFiles',
    before: 'Static pods of a URL got the toleration of NoExecute taints that those of files have.',
    since: 'As in the kubelet, only those of files get it.',
  },
  {
    name: 'detailsAsKubelet',
    before:
      'A violation of `runAsNonRoot` was reported before any other error of a container. The sums of resources in the ' +
      'status of a pod were always written in binary units (bytes) or decimal ones. The mount of an image volume named ' +
      'the runtime handler of the pod. A container that wanted an image between the end of its pull and the record of ' +
      'this was reported as having pulled it.',
    since:
      'As in the kubelet, errors of variables and volumes come first; a sum has the format of its first amount; no ' +
      'handler is named, and each mount of a sub-path in a pod with image volumes repeats the path; such a container is ' +
      'reported as finding the image.',
  },
  {
    name: 'resizesPendingAsKubelet',
    before:
      'Each changed message of a pending resize was an event, a restart of the agent repeated the last one, and a ' +
      'resize that can never be granted any more kept the transition time of its condition.',
    since:
      'As in the kubelet, an event is recorded for each change of the pod and of the reason; the time of a condition ' +
      'follows its reason.',
  },
  {
    name: 'syncsAsKubelet',
    before:
      'A rejected pod kept its reason after its deadline, and the status of a rejected static pod had no containers and ' +
      'no conditions. A container without a configuration (`CreateContainerConfigError`) was tried again after one ' +
      'second, then after two, four and ten. That the node cannot run a pod (no such RuntimeClass) was reported once.',
    since:
      'As in the kubelet, the deadline of a rejected pod is reported, and the status of a rejected static pod is ' +
      'complete. Such a container is tried again, and such a pod reported again, after ten to fifteen seconds, or at ' +
      'once when an object changes that it uses.',
  },
  {
    name: 'leaseAsKubelet',
    before: 'A lease that could not be renewed five times was renewed again with the next period, after ten seconds.',
    since:
      'As in the kubelet, it is read until the API server answers, at most every seven seconds, and renewed at once.',
  },
  {
    name: 'csiNodeOfNode',
    before: 'A CSINode whose owner is an earlier Node of this name was kept, until it was garbage collected.',
    since: 'As in the kubelet, it is deleted and created again.',
  },
  {
    name: 'addressesFollowed',
    before: 'A node had the addresses that its machine had when the agent started.',
    since:
      'As in the kubelet, other addresses of the machine are those of the Node with its next status, and of pods from ' +
      'then on.',
  },
] as const;
