/** Logs of real containers: rotated during writes, found by their links, and removed with their pods. */
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const CONFIGURATION = `containerLogMaxSize: 10Ki
containerLogMaxFiles: 3
containerLogMonitorInterval: 3s`;
/** Each line has two hundred bytes with the runtime's part, and a number that shows gaps. */
const WRITER =
  "trap 'exit 0' TERM; n=0; while :; do n=$((n+1)); printf '%0160d\\n' $n; [ $((n % 10)) = 0 ] && sleep 0.1; done";

describe.each(runtimes)('container logs on $name', (choice) => {
  const { skip } = requirement('containerd', choice.name === 'containerd' ? choice.unavailable : null);
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  let links: string;

  beforeAll(async () => {
    if (skip) return;
    runtime = await choice.start();
    node = new ObservedNode(runtime, { configuration: CONFIGURATION });
    const data = join(node.directory, 'data');
    links = join(data, 'containers');
    mkdirSync(data);
    await node.start([`--data-dir=${data}`]);
  });
  afterAll(async () => {
    if (skip) return;
    await node.close();
    await runtime.close();
  });

  const podLogs = () => join(node.directory, 'data/logs');
  const folderOf = (pod: string) => {
    const found = readdirSync(podLogs()).find((each) => each.includes(`_${pod}-node1_`));
    return found === undefined ? '' : join(podLogs(), found, 'c');
  };

  it.skipIf(skip)('are rotated, compressed and limited, and no line is lost', async () => {
    node.write('writer.json', shellPod('writer', node.image, WRITER));
    await node.running('writer');
    const names = () => readdirSync(folderOf('writer')).sort();
    await eventually('a compressed part', () => names().some((each) => each.endsWith('.gz')));
    const isAside = (each: string) => /^0\.log\.\d{8}-\d{6}$/.test(each);
    // Between the rename and the new file there is no log.
    const text = await eventually('one aside and one that is written', () => {
      const [aside, ...more] = names().filter(isAside);
      if (aside === undefined || more.length > 0) return null;
      return ['0.log', aside]
        .map((each) => readFileSync(join(folderOf('writer'), each), 'utf8'))
        .toReversed()
        .join('');
    });
    expect(names().length).toBeLessThanOrEqual(4);
    const numbers = [...text.matchAll(/ stdout F (\d{160})/g)].map(([, digits]) => Number(digits));
    expect(numbers.length).toBeGreaterThan(50);
    numbers.forEach((number, at) => expect(number).toBe(numbers[0]! + at));
    expect(node.log).not.toMatch(/Failed to (rotate|reopen) container log/);
  });

  it.skipIf(skip)('are found by their links', async () => {
    const { id } = await node.running('writer');
    const link = join(links, `writer-node1_default_c-${id}.log`);
    expect(realpathSync(link)).toBe(realpathSync(join(folderOf('writer'), '0.log')));
    expect(statSync(link).isFile()).toBe(true);
  });

  it.skipIf(skip)('are gone with their pod, and so are the links', async () => {
    const folder = folderOf('writer');
    node.remove('writer.json');
    await node.gone('writer');
    await eventually('the logs are gone', () => !existsSync(join(folder, '..')));
    expect(readdirSync(links)).toEqual([]);
  });

  it.skipIf(skip)('of a pod that went while its agent was dead are gone, too', async () => {
    node.write('leaver.json', shellPod('leaver', node.image, "trap 'exit 0' TERM; echo hi; sleep 3600 & wait"));
    await node.running('leaver');
    await eventually('its link', () => readdirSync(links).length === 1);
    const folder = folderOf('leaver');
    await node.stop('SIGKILL');
    node.remove('leaver.json');
    await node.start([`--data-dir=${join(node.directory, 'data')}`]);
    await eventually('the logs are gone', () => !existsSync(join(folder, '..')));
    expect(readdirSync(links)).toEqual([]);
  });

  it.skipIf(skip)('are in journals that verify and replay', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
});
