/** `statelet describe pod` compared with kubectl's output for a recorded pod. */
import { expect, it } from 'vitest';
import { describePod } from '../../../src/bin/local/describe-pod.ts';
import type { LocalPod } from '../../../src/bin/local/node-client.ts';
import { columns, podReason, podRows } from '../../../src/bin/local/pod-table.ts';

const AT = '2026-01-01T00:00:00Z';
const NOW_MS = Date.parse(AT) + 194_000;

const pod: LocalPod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'web',
    namespace: 'default',
    uid: 'u',
    labels: { tier: 'front', app: 'web' },
    annotations: { note: 'golden' },
  },
  spec: {
    nodeName: 'node1',
    initContainers: [{ name: 'setup', image: 'bb:1', command: ['sh', '-c', 'true'] }],
    containers: [
      {
        name: 'httpd',
        image: 'bb:1',
        ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
        command: ['sh', '-c', 'httpd -f'],
        resources: { limits: { cpu: '200m', memory: '64Mi' }, requests: { cpu: '50m', memory: '32Mi' } },
        livenessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 3 },
        readinessProbe: { httpGet: { path: '/index.html', port: 'http', scheme: 'HTTP' }, periodSeconds: 2 },
        startupProbe: { exec: { command: ['cat', '/site/index.html'] }, periodSeconds: 1, failureThreshold: 20 },
        env: [
          { name: 'MODE', valueFrom: { configMapKeyRef: { name: 'web-cm', key: 'mode', optional: false } } },
          { name: 'PW', valueFrom: { secretKeyRef: { name: 'web-secret', key: 'password', optional: false } } },
          { name: 'NODE', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'spec.nodeName' } } },
        ],
        volumeMounts: [
          { name: 'work', mountPath: '/site' },
          { name: 'sec', mountPath: '/sec', readOnly: true },
        ],
      },
    ],
    volumes: [
      { name: 'work', emptyDir: {} },
      { name: 'sec', secret: { secretName: 'web-secret', optional: false } },
    ],
    tolerations: [
      { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
    ],
  },
  status: {
    phase: 'Running',
    qosClass: 'Burstable',
    hostIP: '192.0.2.1',
    podIP: '10.0.0.2',
    podIPs: [{ ip: '10.0.0.2' }],
    startTime: AT,
    conditions: [{ type: 'Ready', status: 'True' }],
    initContainerStatuses: [
      {
        name: 'setup',
        image: 'bb:1',
        imageID: 'sha256:i',
        containerID: 'containerd://a',
        ready: true,
        restartCount: 0,
        lastState: {},
        state: { terminated: { exitCode: 0, reason: 'Completed', startedAt: AT, finishedAt: AT } },
      },
    ],
    containerStatuses: [
      {
        name: 'httpd',
        image: 'bb:1',
        imageID: 'sha256:i',
        containerID: 'containerd://b',
        ready: true,
        restartCount: 0,
        lastState: {},
        state: { running: { startedAt: AT } },
      },
    ],
  },
};

/** Lines of the recorded output of `kubectl describe pod web` that are the same for this pod. */
const RECORDED = `Labels:           app=web
                  tier=front
Annotations:      note: golden
Status:           Running
    Port:          8080/TCP
    Host Port:     0/TCP
    State:          Running
    Ready:          True
    Restart Count:  0
    Limits:
      cpu:     200m
      memory:  64Mi
    Requests:
      cpu:      50m
      memory:   32Mi
    Liveness:   tcp-socket :8080 delay=0s timeout=1s period=3s #success=1 #failure=3
    Readiness:  http-get http://:http/index.html delay=0s timeout=1s period=2s #success=1 #failure=3
    Startup:    exec [cat /site/index.html] delay=0s timeout=1s period=1s #success=1 #failure=20
    Environment:
      MODE:  <set to the key 'mode' of config map 'web-cm'>      Optional: false
      PW:    <set to the key 'password' in secret 'web-secret'>  Optional: false
      NODE:   (v1:spec.nodeName)
      /sec from sec (ro)
      /site from work (rw)
    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)
    SizeLimit:  <unset>
    SecretName:  web-secret
  Type    Reason   Age    From     Message
  ----    ------   ----   ----     -------
  Normal  Created  3m13s  kubelet  Container created`.split('\n');

it('a pod is described in the lines that kubectl was recorded with', () => {
  const event = {
    type: 'Normal',
    reason: 'Created',
    message: 'Container created',
    at: '2026-01-01T00:00:01Z',
    count: 1,
  };
  const described = describePod(pod, [event], NOW_MS).split('\n');
  expect(RECORDED.filter((line) => !described.includes(line))).toEqual([]);
});

it('pods are listed in kubectl columns', () => {
  expect(columns(podRows([pod], { wide: false, allNamespaces: true, nowMs: NOW_MS }))).toBe(
    'NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\ndefault     web    1/1     Running   0          3m14s\n',
  );
});

it.each([
  ['waiting', { containerStatuses: [{ state: { waiting: { reason: 'CrashLoopBackOff' } } }] }, 'CrashLoopBackOff'],
  ['ended by a signal', { containerStatuses: [{ state: { terminated: { exitCode: 137, signal: 9 } } }] }, 'Signal:9'],
  ['evicted', { reason: 'Evicted', phase: 'Failed', containerStatuses: [] }, 'Evicted'],
  [
    'with an init container that failed',
    { initContainerStatuses: [{ name: 'setup', state: { terminated: { exitCode: 1, reason: 'Error' } } }] },
    'Init:Error',
  ],
  [
    'with an init container that runs',
    { initContainerStatuses: [{ name: 'setup', state: { running: {} } }] },
    'Init:0/1',
  ],
])('the status of a pod %s', (_name, status, text) => {
  expect(podReason({ ...pod, status: { ...pod.status, ...status } as LocalPod['status'] })).toBe(text);
});
