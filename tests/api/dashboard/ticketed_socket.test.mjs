import assert from "node:assert/strict";
import test from "node:test";

import { ticketed } from "../../../api/dashboard/page/lib/ticketed_socket.js";

/** A socket that waits for a ticket: `give` and `refuse` answer, `sockets` are those that opened. */
function waiting() {
  const sockets = [];
  const heard = [];
  let give;
  let refuse;
  const ticket = () =>
    new Promise((resolve, reject) => {
      give = (text) => (resolve(text), new Promise(setImmediate));
      refuse = (words) => (reject(new Error(words)), new Promise(setImmediate));
    });
  const Socket = ticketed(
    ticket,
    class {
      constructor(url) {
        this.url = url;
        this.readyState = 0;
        this.sent = [];
        sockets.push(this);
      }
      send(text) {
        this.sent.push(text);
      }
      close(code) {
        this.readyState = 3;
        this.code = code;
      }
    },
  );
  const socket = new Socket("ws://gateway/ws");
  for (const event of ["onopen", "onmessage", "onclose"]) {
    socket[event] = (detail) => heard.push([event, detail]);
  }
  return { socket, sockets, heard, give: (text) => give(text), refuse: (words) => refuse(words) };
}

test("it connects with the ticket, and is then the socket", async () => {
  const { socket, sockets, heard, give } = waiting();
  assert.equal(socket.readyState, 0);
  assert.equal(sockets.length, 0);
  await give("ticket_a");
  assert.equal(sockets[0].url, "ws://gateway/ws?api_key=ticket_a");
  sockets[0].readyState = 1;
  sockets[0].onopen("opened");
  sockets[0].onmessage("said");
  socket.send("text");
  assert.deepEqual([socket.readyState, sockets[0].sent], [1, ["text"]]);
  socket.close(1000);
  assert.equal(sockets[0].code, 1000);
  sockets[0].onclose("ended");
  assert.deepEqual(heard, [["onopen", "opened"], ["onmessage", "said"], ["onclose", "ended"]]);
});

test("without a ticket it is closed, and says why", async () => {
  const { socket, sockets, heard, refuse } = waiting();
  await refuse("no key");
  assert.deepEqual(heard, [["onclose", { code: 0, reason: "no key" }]]);
  assert.equal(socket.readyState, 3);
  assert.equal(sockets.length, 0);
});

test("one that is closed while it waits never connects", async () => {
  const { socket, sockets, give } = waiting();
  socket.close(1000);
  await give("ticket_a");
  assert.equal(sockets.length, 0);
  assert.equal(socket.readyState, 3);
});

test("an address that is none is an exception, as of a WebSocket", () => {
  const Socket = ticketed(async () => "t");
  assert.throws(() => new Socket("nowhere"));
});
