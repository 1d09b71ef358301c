/** Names that authors of pods choose are keys of tables, and do not affect decisions. */
import { expect, it } from 'vitest';
import { PodsStage } from '../../../support/transcripts/pods-stage.ts';
import { play } from '../../../support/transcripts/script.ts';

/** A pod with this name in all places: it crashes, waits, is probed, taken over, and removed. */
const story = (name: string): string => `# A pod

image-on-node app:1
program ${name}
  exits 1 after 3s
manifest web
  volumes:
    - {name: ${name}, emptyDir: {}}
    - {name: other, downwardAPI: {items: [{path: ${name}, fieldRef: {fieldPath: metadata.name}}]}}
  initContainers:
    - name: first
      image: app:1
      restartPolicy: Always
      volumeMounts: [{name: ${name}, mountPath: /x}]
      startupProbe: {exec: {command: [/ready]}}
  containers:
    - name: ${name}
      image: app:1
      env:
        - {name: ${name}, value: a}
        - {name: AGAIN, value: "$(${name})"}
        - {name: LIMIT, valueFrom: {resourceFieldRef: {containerName: ${name}, resource: limits.cpu}}}
      ports: [{name: ${name}, containerPort: 80}]
      resources: {limits: {cpu: 100m, memory: 10Mi}}
      volumeMounts: [{name: ${name}, mountPath: /x, subPath: ${name}}, {name: other, mountPath: /y}]
      lifecycle: {postStart: {exec: {command: [/hook]}}, preStop: {exec: {command: [/hook]}}}
      startupProbe: {httpGet: {port: ${name}, httpHeaders: [{name: ${name}, value: x}]}, periodSeconds: 1}
      livenessProbe: {tcpSocket: {port: 80}}
      readinessProbe: {exec: {command: [/ready]}}
    - {name: last, image: app:1, volumeMounts: [{name: ${name}, mountPath: /x}]}
boot
run 30s
kill-agent
boot
run 20s
remove web
run 40s
`;
const told = (name: string): string =>
  play(story(name), new PodsStage(['pod', 'container'])).replaceAll(name, 'the-name');

it('that every object has a member of are names like any other', () => {
  const decisions = told('constructor');
  expect(decisions).toBe(told('another-name'));
  expect(decisions).toContain('event Normal Started of default/web-node spec.containers{the-name}');
});
