"""Maps copied to maps in another order: what a command does not read as it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fpga_dynamo.ir.blocked import CHANNEL, IMAGE, PIXEL
from fpga_dynamo.ir.view import Buffer, View, ceil_div, dense, numel

from .commands import CommandEmitter
from .gather import LINE_RUNS, EngineGather, Index, compact, copied, pack_runs, transposed
from .maps import Map, MapImages, RefusedError, as_map, dense_view, images_of, rows_of
from .reorder import reordered
from .sizes import CHANNELS
from .vector import VectorCommand, VectorOperation


class CopyEmitter(CommandEmitter):
    """Copies: of words by the vector side, of constants, and of channels by products with 0 and 1 (reorder.py)."""

    def copy_constant(self, of: Map, content: Buffer) -> None:
        """A command that copies the content of a map from the weights' region."""
        command = VectorCommand(
            operation=VectorOperation.CONSTANT,
            channels=CHANNELS,
            pixels=of.pixels,
            heads=(of.images, of.blocks),
            output_head=(of.image_lines, of.plane),
            output=self.place(of),
            params=self.put(content),
        )
        self._append_vector(command)
        self.written(of)

    def split_heads(self, size: Sequence[int], name: str) -> View:
        """A map for each matrix of a batch."""
        of = Map(numel(size[:-2]), size[-2], size[-1], self.sizes, name)
        return View(of, tuple(size), (*(IMAGE * step for step in dense(size[:-2])), PIXEL, CHANNEL))

    def rows(self, view: View, what: str) -> MapImages:
        """:func:`rows_of` a view, or of a copy that has an order in which they can be read."""
        return rows_of(self._readable(view, what, rows_of, self.as_rows), what)

    def images(self, view: View, what: str) -> MapImages:
        """:func:`images_of` a view, or of a copy that has an order in which they can be read."""
        return images_of(self._readable(view, what, images_of, self.own), what)

    def _readable(
        self, view: View, what: str, read: Callable[[View, str], MapImages], copy: Callable[[View, str], View]
    ) -> View:
        try:
            read(view, what)
        except RefusedError:
            if not self.sizes.gather:
                raise
            return copy(view, what)
        return view

    def own(self, view: View, what: str) -> View:
        """A copy of a view in a map of its own, dense. Raises RefusedError, about `what`, for what no words say."""
        return self.copied(view, dense_view(Map(*as_map(view.shape), self.sizes, view.buffer.name), view.shape), what)

    def as_rows(self, view: View, what: str) -> View:
        """A copy of a view of any rank whose last dimension are the channels of a map, and whose others its pixels."""
        size = (*view.shape,)
        of = Map(1, numel(size[:-1]), size[-1], self.sizes, view.buffer.name)
        steps = (PIXEL * step for step in dense(size[:-1]))
        return self.copied(view, View(of, size, (*steps, CHANNEL)), what)

    def compact(self, view: View, what: str) -> View:
        """A copy of a view in a map of its own, which has its channels. Raises RefusedError, as :meth:`own` does."""
        return self.copied(view, compact(view, self.sizes), what)

    def copied(self, view: View, target: View, what: str) -> View:
        self.copy(view, target, what)
        return target

    def moved(
        self, view: View, index: Mapping[int, Index], size: Sequence[int], what: str, *, filling: int = 0
    ) -> View:
        """A copy with other places along some dimensions, of `size`; `filling` where there is no source."""
        target = compact(view, self.sizes, size)
        self.copy(view, target, what, index, filling=filling)
        return target

    def copy(
        self,
        source: View,
        target: View,
        what: str,
        index: Mapping[int, Index] | None = None,
        *,
        filling: int = 0,
        words_only: bool = False,
    ) -> None:
        """Commands that copy a view to another one, see :func:`copied`. Raises RefusedError, about `what`.

        filling: of channels that fill up a block, where these are moved one by one; not with `words_only`.
        """
        s, t = source.buffer, target.buffer
        assert isinstance(s, Map) and isinstance(t, Map)
        try:
            commands = copied(source, target, self.sizes, what, index)
        except RefusedError:
            if index or words_only:
                raise
            reordered(source, target, self, what, filling)
            return
        for command in commands:
            self.gather(command, s, t, filling=filling)

    def transpose(self, source: View, target: View, of: int, to: int, what: str, filling: int) -> None:
        """Commands that copy a view whose channels are dimension `of` to one whose channels are dimension `to`.

        As :func:`transposed`. filling: of channels that fill up a block. Raises RefusedError, about `what`.
        """
        s, t = source.buffer, target.buffer
        assert isinstance(s, Map) and isinstance(t, Map)
        for command in transposed(source, target, of, to, self.sizes, what):
            self.gather(command, s, t, filling=filling)

    def gather(self, of: EngineGather, x: Map, out: Map, *, filling: int = 0) -> None:
        """A command that gathers words of a map. filling: of words that have no source."""
        runs = tuple((int(run.source), run.first, run.words) for run in of.runs)
        name = f"{len(runs)} runs of {out.name}"
        table = self.put(self.pack(pack_runs, (runs, filling), [], 16 * ceil_div(len(runs), LINE_RUNS), name))
        command = VectorCommand(
            operation=VectorOperation.TRANSPOSE if of.transposes else VectorOperation.GATHER,
            channels=CHANNELS,
            pixels=of.pixels,
            heads=of.heads,
            input_head=of.input_head,
            output_head=of.output_head,
            taken=(of.taken, 0),
            runs=len(runs),
            input=self.place(x) * self.sizes.beat + of.input,
            input_after=self.after(x),
            output=self.place(out) + of.output,
            params=table,
        )
        self._append_vector(command)
        self.written(out)
