"""Where facts go: one method over a batch, done when the other side has them."""
