"""Facts as they happen, over WebSocket, and the page that shows them."""
