"""What `soltape up` starts on this machine, and how it is watched."""
