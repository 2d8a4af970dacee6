// Talks to the gateway at argv[2] with the key argv[3]: says the messages of stdin, one a line, each
// once the one before is answered, and prints what comes as JSON: {messages, code, reason, pings}.
// The line "wait N" waits for N messages, "close" closes. Run where node_modules is.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { WebSocket } = require('ws');

const lines = readFileSync(0, 'utf8').split('\n').filter(Boolean);
const socket = new WebSocket(process.argv[2], { headers: { 'x-api-key': process.argv[3] } });
const messages = [];
let waiting = 0;
let pongs = 0;

function next() {
  const line = lines.shift();
  if (line === undefined) return;
  if (line === 'close') {
    socket.close(4123, 'bye');
  } else if (line.startsWith('wait ')) {
    waiting = Number(line.slice(5));
    process.stderr.write('waiting\n');
  } else if (line.startsWith('binary ')) {
    waiting = 1;
    socket.send(Buffer.from(line.slice(7)));
  } else if (line === 'ping') {
    socket.ping('of the protocol');
  } else {
    waiting = 1;
    socket.send(line);
  }
}

socket.on('open', next);
socket.on('pong', (data) => {
  pongs += String(data) === 'of the protocol' ? 1 : 0;
  next();
});
socket.on('message', (data, isBinary) => {
  const message = JSON.parse(data);
  if (message.type === 'notice') return;
  messages.push({ isBinary, ...message });
  waiting -= 1;
  if (waiting === 0) next();
});
socket.on('unexpected-response', (_, response) => {
  let body = '';
  response.on('data', (piece) => { body += piece; });
  response.on('end', () => {
    console.log(JSON.stringify({ status: response.statusCode, body: JSON.parse(body) }));
    process.exit(0);
  });
});
socket.on('close', (code, reason) => {
  console.log(JSON.stringify({ messages, code, reason: String(reason), pongs }));
});
