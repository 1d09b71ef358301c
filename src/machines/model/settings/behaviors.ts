/**
 * Intentional changes of decisions of a released version, in order. `behavior` is the number of changes that a node
 * applies; it is part of the root machine's input, and so of the journal, and a replay decides as that node did. If a
 * decision reaches the world, the machine keeps its old branch under a guard with `hasBehavior`.
 *
 * Invariants: an entry is added at the end and never removed or moved; it describes the decision before and since. A
 * new entry comes with a journal of the old decision below `test/golden/journals`.
 */
const BEHAVIORS = [
  {
    name: 'impossibleProbeEachPeriod',
    before: 'A probe that names a port which the container does not have was an event once.',
    since: 'It is an event in each period of the probe, as of the kubelet.',
  },
  {
    name: 'eventsOfEachType',
    before: 'Of one object 25 events were written at once, then one now and then.',
    since: 'That many of each type are, as of the kubelet: warnings do not use up what is normal.',
  },
  {
    name: 'resourcesAsKubelet',
    before:
      "Exclusive CPUs were chosen, pinned and bounded in ways of this agent's own; what another kubelet's state files say " +
      'was not read; and who found no room at a start was refused before it was known which pods there are.',
    since: 'All of that is as of the kubelet.',
  },
  {
    name: 'resizeConditionsEnd',
    before: 'A pod that had ended kept the condition of a resize that waits.',
    since: 'Its end removes them, as of the kubelet.',
  },
  {
    name: 'nodeAsKubelet',
    before:
      'After a restart no event said how the conditions of the Node are. Labels that others took came back with the next ' +
      'start, conditions that others changed without events; a lease that another one holds became its own again.',
    since: 'All of that is as of the kubelet.',
  },
  {
    name: 'dynamicResources',
    before: 'Pods with ResourceClaims waited for ever, for resource drivers were not taken.',
    since: 'Their claims are prepared by the drivers of this node, as of the kubelet.',
  },
  {
    name: 'resourcesLimited',
    before:
      'A node took device plugins of as many resources as there were, and pods with as many objects and ephemeral ' +
      'containers; the objects of one pod were all requested in one turn.',
    since:
      'It takes plugins of 128 resources and says of further ones that they are not followed, pods with 500 objects and ' +
      '2,000 containers, and requests 50 objects of a pod in a turn.',
  },
  {
    name: 'imagesAsKubelet',
    before:
      'An image that must not be pulled was looked for again after five minutes. A pull that waited for its turn was no event. ' +
      'A container whose image has no tag was shown with the image as its pod names it. Images that no pod had used went ' +
      'also where the agent was younger than the minimum age. An image was as old as its first container. Images of ' +
      'volumes that no container mounts were not pulled.',
    since:
      'All of that is as of the kubelet: ten seconds, `Pulling` at once, the image as the runtime names it, as old as ' +
      'its last container, and every image of a pod.',
  },
  {
    name: 'evictionAsKubelet',
    before:
      'The Event of an eviction had no annotations. What an evicted pod left stayed until the pod was deleted. ' +
      'A node under pressure said after a restart that there was none, until it saw it.',
    since:
      'It names what was starved and who used how much of it, as of the kubelet. What the pod left is removed within a ' +
      'minute. A restart leaves what is said of pressure until there was time to see it.',
  },
  {
    name: 'hooksAsKubelet',
    before:
      'A postStart hook that cannot be run was told as a command that had failed; one that had failed with all it said.',
    since: 'Why it cannot be run is told, and of a command what it said of its error, as by the kubelet.',
  },
  {
    name: 'alphaCpuOptions',
    before: 'The alpha options of the static CPU policy ended the start.',
    since: 'They are built.',
  },
  {
    name: 'podsAsKubelet',
    before:
      'The resources in the status of a pod were those that it is to have, also where a resize had not been made. A pod whose ' +
      'deadline was over when the agent began was given a new sandbox before it ended. Of a manifest it was not looked ' +
      'at how newer fields go together, nor at fields that only others read; one that says that it is a mirror pod was ' +
      'mirrored. Sidecars were restarted while the last regular container was being stopped.',
    since:
      'They are those that it has; such a pod is given nothing more; manifests are taken, refused and filled in, and no ' +
      'mirror is mirrored; sidecars are not restarted then: as of the kubelet.',
  },
  {
    name: 'addressesAsKubelet',
    before:
      'The address of a node without `--node-ip` was the first of the machine, also where a cloud provider was to say it; ' +
      'one that `--node-ip` named was taken as written and not looked for on the machine. Zone, region and instance ' +
      'type of `--node-labels` were of new Nodes only.',
    since:
      'It is that of the name of the node or of the default route, or left to the cloud provider; one that the machine ' +
      'does not have is refused. These labels are those of the flag after each start: as of the kubelet.',
  },
  {
    name: 'deadContainersAsKubelet',
    before: 'Dead instances of a container that are not kept were removed in the next round, within two minutes.',
    since: 'They are removed when one more dies, as of the kubelet.',
  },
  {
    name: 'allocationsHandedOver',
    before: 'A pod of another kubelet was admitted with what it requests, also where a resize to that was not granted.',
    since: "It is admitted with what the kubelet's files say that it was granted; they are written, too.",
  },
  {
    name: 'csiFailuresAsKubelet',
    before:
      'A secret that a CSI driver needs and that cannot be read was told without its name and namespace. Nothing was told ' +
      'of a volume that the Node lists as attached and that its VolumeAttachment does not.',
    since: 'Both are told in the words of the kubelet.',
  },
] as const;

export type Behavior = (typeof BEHAVIORS)[number]['name'];

/** The number of a node that starts now: it applies all changes. */
export const NEWEST_BEHAVIOR: number = BEHAVIORS.length;

/** A node, or a part of it, that may apply only some of the changes. */
export interface Decider {
  /** How many changes it applies: the first ones of {@link BEHAVIORS}. */
  readonly behavior: number;
}

export const hasBehavior = ({ behavior }: Decider, name: Behavior): boolean =>
  BEHAVIORS.findIndex((each) => each.name === name) < behavior;
