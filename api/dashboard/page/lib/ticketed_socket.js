// A WebSocket that fetches a ticket before it connects: no key gets into an address.

/** Return a class like WebSocket; `ticket()` resolves to the text that opens one connection. */
export function ticketed(ticket, WebSocketClass = globalThis.WebSocket) {
  return class {
    constructor(url) {
      this._url = new URL(url);
      this._socket = null;
      this._isClosed = false;
      this._connect();
    }

    get readyState() {
      return this._socket?.readyState ?? (this._isClosed ? 3 : 0);
    }

    send(text) {
      this._socket.send(text);
    }

    close(code) {
      if (this._socket === null) this._isClosed = true;
      else this._socket.close(code);
    }

    async _connect() {
      try {
        this._url.searchParams.set("api_key", await ticket());
        if (this._isClosed) return;
        this._socket = new WebSocketClass(this._url.href);
      } catch (failure) {
        this._isClosed = true;
        this.onclose({ code: 0, reason: failure.message });
        return;
      }
      for (const event of ["onopen", "onmessage", "onclose"]) this._socket[event] = this[event];
    }
  };
}
