"""What a recipe takes of a platform, core by core, from what `hls` reads off clang's IR and from published costs."""
