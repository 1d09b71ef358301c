/**
 * `/run/<namespace>/<pod>[/<uid>]/<container>?cmd=`: runs one command to its end and returns its output.
 * Upstream: pkg/kubelet/server/server.go, getRun.
 */
import { messageOf } from '../../../kernel/thrown.ts';
import { type Answer, json, pageNotFound, text } from '../http/answer.ts';
import { type ApiRequest, type Endpoint, first } from '../http/endpoint.ts';
import { type ApiView, isAnswer, podOf, runningContainer } from '../node-pods.ts';

/** Runs a command in a container and waits for its end. Rejects with the runtime's text if it cannot be started. */
export type ExecSync = (
  request: { readonly containerId: string; readonly command: readonly string[] },
  signal: AbortSignal,
) => Promise<{ readonly exitCode: number; readonly stdout: Buffer; readonly stderr: Buffer }>;

export function runEndpoints(view: ApiView, execSync: ExecSync): Endpoint[] {
  const common = { methods: ['POST'], subresources: ['proxy'] } as const;
  const answer = (request: ApiRequest) => run(view, execSync, request);
  return [
    { ...common, produces: [], path: '/run/:namespace/:pod/:container', answer },
    { ...common, produces: [], path: '/run/:namespace/:pod/:uid/:container', answer },
    { ...common, path: '/run', methods: 'any', answer: pageNotFound },
    { ...common, path: '/run/*', methods: 'any', answer: pageNotFound },
  ];
}

async function run(view: ApiView, execSync: ExecSync, request: ApiRequest): Promise<Answer> {
  const pod = await podOf(view, request);
  if (isAnswer(pod)) return pod;
  const name = request.parameters['container'] ?? '';
  const container = runningContainer(pod, name);
  if (!container) return text(500, `container not found (${JSON.stringify(name)})`);
  const cmd = first(request, 'cmd') ?? '';
  try {
    const { exitCode, stdout, stderr } = await execSync(
      { containerId: container.id, command: cmd.split(' ') },
      request.signal,
    );
    if (exitCode !== 0) return failed(`command '${cmd}' exited with ${exitCode}: `, stderr);
    const output = Buffer.concat([stdout, stderr]);
    return output.length === 0 ? { status: 200, headers: {}, body: '' } : json(output);
  } catch (error) {
    return text(500, messageOf(error));
  }
}

/** The error with the command's own error output, text or not. */
const failed = (why: string, stderr: Buffer): Answer => text(500, Buffer.concat([Buffer.from(why), stderr]));
