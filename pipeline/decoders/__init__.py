"""One file a venue; `pipeline.decoding.registry` finds them by walking this folder."""
