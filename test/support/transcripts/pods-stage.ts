/** The stage of stories about pods, containers and images: a node with models of runtime, disk and registry. */
import { parse } from 'yaml';
import type { Manifest } from '../../../src/machines/model/operations/host.ts';
import { type Fault, PodsWorld } from '../../../src/simulation/world/pods-world.ts';
import type { Program } from '../../../src/simulation/world/runtime-model.ts';
import { VirtualTime } from '../../../src/simulation/world/virtual-time.ts';
import { image, manifest, PodsNode } from '../pods-node.ts';
import { Decisions } from './decisions.ts';
import { type Command, milliseconds, type Stage } from './script.ts';

/** The longest wait of `until`. */
const UNTIL_MAX_MS = 3_600_000;

export class PodsStage implements Stage {
  private node: PodsNode;
  private readonly world = new PodsWorld(new VirtualTime());
  private readonly manifests = new Map<string, Manifest>();
  private readonly faults: { readonly name: string; readonly fault: Fault; left: number }[] = [];
  private text: Decisions;
  private readonly subjects: readonly string[];

  /** `subjects`: the actors whose decisions are shown: `pod`, `container`, `image`. */
  constructor(subjects: readonly string[]) {
    this.subjects = subjects;
    this.world.fault = (name) => {
      const found = this.faults.find((each) => each.name === name && each.left > 0);
      if (found) found.left--;
      return found?.fault;
    };
    this.node = new PodsNode({ world: this.world });
    this.text = this.freshText();
  }

  private freshText(): Decisions {
    return new Decisions({
      nameOf: (address) => {
        const name = nameOf(address);
        return name !== null && this.subjects.includes(name.split(' ')[0] ?? '') ? name : null;
      },
    });
  }

  perform({ name, argument, details }: Command): void {
    const act = this.commands[name];
    if (!act) throw new Error(`no command "${name}"; there are ${Object.keys(this.commands).join(', ')}`);
    act(argument, details);
  }

  decisions(): readonly string[] {
    return this.text.next(this.node.sink.records);
  }

  private readonly commands: Readonly<Record<string, (argument: string, details: string) => void>> = {
    'image-on-node': (name) => void this.world.runtime.images.set(name, image(name)),
    'image-in-registry': (name) => void this.world.registry.set(name, image(name)),
    program: (container, details) =>
      void this.world.runtime.programs.set(container, details.trim().split('\n').map(programOf)),
    probe: (asked, details) => void this.world.answers.set(asked, { result: details.trim() as 'success', output: '' }),
    fault: (name, details) => void this.faults.push({ name, fault: faultOf(details.trim()), left: 1 }),
    manifest: (name, details) => this.put(name, (parse(details) ?? {}) as Record<string, unknown>),
    remove: (name) => {
      this.manifests.delete(name);
      this.world.setManifests([...this.manifests.values()]);
    },
    boot: () => void this.node.boot(),
    run: (time) => void this.node.run(milliseconds(time)),
    'until-ready': (uid) => void this.node.until(`${uid} is ready`, () => this.node.isReady(uid), UNTIL_MAX_MS),
    exit: (argument) => {
      const [container = '', code] = argument.split(' ');
      this.world.runtime.exit(this.world.runtime.running(container)!, Number(code));
    },
    runtime: (state) => void (this.world.isDown = state === 'away'),
    'kill-agent': () => {
      this.node = this.node.restart();
      this.text = this.freshText();
    },
  };

  private put(name: string, spec: Record<string, unknown>): void {
    this.manifests.set(name, manifest({ uid: name, name, spec }));
    this.world.setManifests([...this.manifests.values()]);
  }
}

/** `pod web`, `container web/app`, `image app:1`, or the id of a subsystem. */
function nameOf(address: string): string | null {
  const [, , owner, child] = address.split('/').map(decodeURIComponent);
  if (owner?.startsWith('pod-') && child?.startsWith('container-'))
    return `container ${owner.slice('pod-'.length)}/${child.slice('container-'.length)}`;
  if (owner?.startsWith('pod-') && child === undefined) return `pod ${owner.slice('pod-'.length)}`;
  return owner?.startsWith('image-') ? `image ${owner.slice('image-'.length)}` : null;
}

/** `runs`, `exits 1 after 5s`, `ends 90s after SIGTERM`, `cannot start: no such file`. */
function programOf(text: string): Program {
  const exits = /^exits (\d+) after (\S+)$/.exec(text);
  if (exits) return { exitCode: Number(exits[1]), runsMs: milliseconds(exits[2]!) };
  const ends = /^ends (\S+) after SIGTERM$/.exec(text);
  if (ends) return { stopsMs: milliseconds(ends[1]!) };
  const startError = /^cannot start: (.*)$/.exec(text)?.[1];
  if (startError !== undefined) return { startError };
  if (text !== 'runs') throw new Error(`no program does "${text}"`);
  return {};
}

/** `fails: MESSAGE`, `hangs`, `is done but its answer is lost`. */
function faultOf(text: string): Fault {
  if (text === 'hangs') return { hangs: true };
  if (text === 'is done but its answer is lost') return { lost: true };
  const error = /^fails: (.*)$/.exec(text)?.[1];
  if (error === undefined) throw new Error(`no call "${text}"`);
  return { error, code: 'UNKNOWN' };
}
