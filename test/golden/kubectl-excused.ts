/** Recorded commands of kubectl that end differently here, each with its reason; by file and place in it. */
const IMAGE = 'another image: its PATH and its users are those of its busybox, and it has a root of its own';
const NO_SERVICE = `${IMAGE}; and the test API server has no Service \`kubernetes\``;

export const EXCUSED: Readonly<Record<string, string>> = {
  'exec-websocket#34': NO_SERVICE,
  'exec-spdy#34': NO_SERVICE,
  'exec-websocket#35': IMAGE,
  'exec-spdy#35': IMAGE,
  'logs#1': 'which of two lines of two streams the runtime wrote first was its luck; here they are apart',
};
