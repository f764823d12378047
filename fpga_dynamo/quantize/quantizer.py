"""The quantizer for torchao's ``prepare_pt2e`` and ``prepare_qat_pt2e``: what runs in 8 bits on a card is annotated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from fpga_dynamo.errors import OptionError
from fpga_dynamo.ir.graph import arguments
from fpga_dynamo.quantize import attention
from fpga_dynamo.quantize.biases_of_products import tie_scales
from fpga_dynamo.quantize.constants import fold_constants, numbers_of_parameters
from fpga_dynamo.quantize.in_float import Multiplications, multiplications
from fpga_dynamo.quantize.norms import add_barriers, is_barrier, remove_barriers, warn_of_folds
from fpga_dynamo.quantize.operators import (
    ADDITIONS,
    BATCH_NORM,
    CAPABILITIES,
    CONCATENATIONS,
    EMBEDDING,
    LIMITS,
    MOVES,
    MULTIPLICATIONS,
    PRODUCTS,
    SCALINGS,
    SOFTMAX,
    SUBTRACTIONS,
    SUMS,
    VALUES,
    QuantizedProduct,
    is_float,
    is_image_product,
    is_image_sum,
    is_parameter,
    is_score,
    keeps_range,
    moved,
    scaled_by_channel,
    symmetric_values,
)
from fpga_dynamo.quantize.parameters import constant, is_mask, keep_masks, parameters, set_own_nodes
from fpga_dynamo.quantize.positions import activations, indices
from fpga_dynamo.quantize.products import is_in_cell, linear_layers
from fpga_dynamo.quantize.rotary import rotate_by_tables
from fpga_dynamo.quantize.scales_of_layers import fold_scales
from fpga_dynamo.quantize.specs import BiasType, Scales, specs

_KEY = "quantization_annotation"


class FPGAQuantizer(Quantizer):
    """Annotates what the INT8 engine of a card and the emulator compute in 8 bits.

    A product (convolution, linear, matmul) and what follows it in one command (batch norm, the addition of a residual,
    ReLU and other limits) are one step with one rounding at its end. Activations by table (hardswish, GELU, ...),
    pooling, means, additions and multiplications of two tensors, resize, softmax and layer norms read and write 8 bits,
    as do the rows of embeddings. All else stays in the model's own type. The second operand of a product of two
    activations, as keys and values of attention are, has the zero point 0 unless it is made non-negative: an engine
    without sums of rows (KV260) supports only 0. So has what is divided by its vector norm or root mean square.

    scales: ``"float"``, or ``"pow2"`` for powers of two, with which eager and every engine agree to the bit.
    bias: ``"float"``, or ``"int32"`` in units of the sums.
    training: for ``prepare_qat_pt2e``.
    keep_float: names of nodes, or of modules (such as ``"layer4.1"``), that are left alone.
    capabilities: what is annotated, of :data:`fpga_dynamo.quantize.operators.CAPABILITIES`; everything by default.
    separate_cats: names of ``cat`` and ``stack`` nodes whose inputs keep separate scales, because their ranges differ.
        These nodes, and products that read them, stay in float. :func:`quantize` finds them by itself.

    Raises OptionError for other values; ``annotate`` raises it for names in keep_float that the graph
    does not have.
    """

    def __init__(
        self,
        scales: Scales = "float",
        *,
        bias: BiasType = "float",
        training: bool = False,
        keep_float: Iterable[str] = (),
        capabilities: Collection[str] = CAPABILITIES,
        separate_cats: Iterable[str] = (),
    ) -> None:
        super().__init__()
        lists = (("keep_float", keep_float), ("capabilities", capabilities), ("separate_cats", separate_cats))
        for option, given in lists:
            if isinstance(given, str):
                raise OptionError(f"{option} must be a list of names, not a string: pass [{given!r}]")
        if unknown := sorted(set(capabilities) - CAPABILITIES):
            known = ", ".join(sorted(CAPABILITIES))
            raise OptionError(f"capabilities: unknown {', '.join(unknown)}; there are {known}")
        self.specs = specs(scales, bias, training)
        self.keep_float = frozenset(keep_float)
        self.capabilities = frozenset(capabilities)
        self.training = training
        self.separate_cats = frozenset(separate_cats)
        self._symmetric: Collection[Node] = ()
        self._activations: Collection[Node] = ()
        self._indices: Collection[Node] = ()
        self._parameters: Collection[Node] = ()
        self._masks: Collection[Node] = ()
        self._rotations: Collection[Node] = ()
        self.multiplications: Multiplications | None = None
        """Those of the graph that was annotated last."""

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Has layers take in the scales behind them; takes fused attention apart, whose products can be in 8 bits."""
        remove_barriers(model)
        linear_layers(model, self._kept(model.graph.nodes)[0])
        if not self.training:
            warn_of_folds(model)
        if self.training:
            add_barriers(model, shared_only=True)  # weights stay shared while they train
        else:
            fold_constants(model)
        fold_scales(model, self._kept(model.graph.nodes)[0])
        if not self.training:
            numbers_of_parameters(model)
            self._rotations = rotate_by_tables(model, self._kept(model.graph.nodes)[0])
        if "matmul" in self.capabilities:
            attention.take_apart(model)
        keep_masks(model, _sums_of_scores(model))
        if self.specs.bias == "int32":
            # Each product may have to raise the scales of its weights (see biases_of_products).
            set_own_nodes(model, lambda node: node.target in PRODUCTS or node.target is EMBEDDING)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        kept, missing = self._kept(model.graph.nodes)
        if missing:
            raise OptionError(f"keep_float: the graph has no node or module named {', '.join(map(repr, missing))}")
        taken: set[Node] = set(kept)
        self._symmetric = symmetric_values(node for node in model.graph.nodes if node not in kept)
        self._activations, self._indices = activations(model), indices(model.graph.nodes)
        self._parameters = parameters(model)
        operands = (arg for node in _sums_of_scores(model) for arg in node.args)
        self._masks = {arg for arg in operands if isinstance(arg, Node) and is_mask(constant(model, arg))}
        for node in model.graph.nodes:
            product = PRODUCTS.get(node.target)
            if product is not None and node not in taken and product.name in self.capabilities:
                self._product(node, product, taken)
        self.multiplications = multiplications(model, taken, self._asked(model, kept), self._activations)
        for node in model.graph.nodes:
            if node in taken or node.op != "call_function" or not self._is_rounded(node):
                continue
            if node.target in MOVES:
                self._move(node)  # first, since the value of chunk and its like is a list
            elif not is_float(node):
                continue
            elif node.target is EMBEDDING and "embedding" in self.capabilities:
                self._embedding(node)
            elif node.target in CONCATENATIONS and "cat" in self.capabilities:
                self._join(node)
            elif node.target in ADDITIONS and self._mask_of(node) is not None:
                self._masked(node)
            elif VALUES.get(node.target) in self.capabilities:
                self._value(node, taken)
        return model

    def _asked(self, model: GraphModule, kept: Collection[Node]) -> set[Node]:
        """The products that an option leaves in float32."""
        products = ((node, PRODUCTS.get(node.target)) for node in model.graph.nodes)
        return {node for node, product in products if product and product.name not in self.capabilities} | set(kept)

    def validate(self, model: GraphModule) -> None:
        """Accepts every model: whatever is annotated can also run in eager mode."""

    def _kept(self, nodes: Iterable[Node]) -> tuple[set[Node], list[str]]:
        """The nodes that keep_float names, and the names that no node has; attention's parts have theirs only later."""
        kept, found = set(), set()
        for node in nodes:
            modules = [_path(name) for name, _ in (node.meta.get("nn_module_stack") or {}).values()]
            for name in self.keep_float:
                if node.name == name or any(path == name or path.startswith(name + ".") for path in modules):
                    kept.add(node)
                    found.add(name)
        return kept, sorted(self.keep_float - found)

    def prepare_obs_or_fq_callback(self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]) -> None:
        """Has weights' scales follow from the biases that int32 has to hold."""
        tie_scales(model, edge_or_node_to_obs_or_fq)

    def _is_rounded(self, node: Node) -> bool:
        """Whether a node's value may be rounded to 8 bits: an activation of which no index and no state comes."""
        return node in self._activations and node not in self._indices and not is_in_cell(node)

    def _activation(self, node: Node) -> QuantizationSpec:
        return self.specs.symmetric if moved(node) in self._symmetric else self.specs.activation

    def _product(self, node: Node, product: QuantizedProduct, taken: set[Node]) -> None:
        data, second = node.args[:2]
        if not (isinstance(data, Node) and isinstance(second, Node) and is_float(data) and is_float(second)):
            return
        if product.weight_axis is None:
            if not (self._is_rounded(node) and all(map(self._is_factor, (data, second)))):
                return
        elif data not in self._activations or self._is_separate(data):
            return
        annotation = QuantizationAnnotation(_annotated=True)
        annotation.input_qspec_map[data] = self._activation(data)
        if product.weight_axis is None:
            annotation.input_qspec_map[second] = self._activation(second)
        elif not is_parameter(second):
            return  # a weight that is computed: its scale would be that of one call
        else:
            annotation.input_qspec_map[second] = self.specs.weight_of(product.weight_axis)
        bias = node.args[product.bias] if product.bias is not None and len(node.args) > product.bias else None
        if self.specs.bias == "int32" and isinstance(bias, Node) and not product.weight_axis:
            annotation.input_qspec_map[bias] = self.specs.bias_of(node, data, second)
        node.meta[_KEY] = annotation
        taken.add(node)
        last = self._epilogue(node, taken)
        if last is not node:
            last.meta.setdefault(_KEY, QuantizationAnnotation(_annotated=True))
        if self._is_rounded(last):
            last.meta[_KEY].output_qspec = self._activation(last)

    def _is_separate(self, node: Node) -> bool:
        """Whether a value's elements come from a join whose parts have ranges that no scale suits."""
        return moved(node).name in self.separate_cats

    def _epilogue(self, node: Node, taken: set[Node]) -> Node:
        """The last node of the command: what each follows the only use of the one before."""
        last = node
        for kind in ("norm", "addition", "limit"):
            user = _only_user(last)
            if user is not None and is_barrier(user):
                last, user = user, _only_user(user)
            if user is None or user in taken or not is_float(user) or not self._is_rounded(user):
                break
            if kind == "norm" and user.target in BATCH_NORM and user.args[0] is last:
                taken.add(user)
            elif kind == "addition" and self._adds(user):
                other = user.args[1] if user.args[0] is last else user.args[0]
                if other is last or not isinstance(other, Node) or not self._is_addend(other):
                    break
                annotation = QuantizationAnnotation(_annotated=True)
                annotation.input_qspec_map[other] = self._activation(other)
                user.meta[_KEY] = annotation
                taken.add(user)
            elif kind == "limit" and user.target in LIMITS:
                taken.add(user)
            else:
                continue
            last = user
        return last

    def _adds(self, node: Node) -> bool:
        return node.target in ADDITIONS and "addition" in self.capabilities and is_image_sum(node)

    def _is_factor(self, node: Node) -> bool:
        """Whether a product of two values may have an operand in 8 bits: a batch of constant matrices has one scale."""
        return (node in self._activations and not self._is_separate(node)) or is_parameter(node)

    def _is_addend(self, node: Node) -> bool:
        """Whether an operand is an activation or a parameter; masks and tables of positions are neither."""
        return (node in self._activations or node in self._parameters) and not self._is_separate(node)

    def _mask_of(self, node: Node) -> Node | None:
        """The mask that is added to scores which are in 8 bits."""
        scores, mask = node.args[:2] if node.args[1] in self._masks else node.args[1::-1]
        if not (isinstance(scores, Node) and isinstance(mask, Node) and mask in self._masks):
            return None
        if "addition" not in self.capabilities or node.kwargs.get("alpha", 1) != 1 or not is_score(node):
            return None
        is_known = _is_quantized(scores) or _scaled(scores) is not None
        return mask if is_known and scores.meta["val"].shape == node.meta["val"].shape else None

    def _masked(self, node: Node) -> None:
        """Scores and their mask; of the sum the softmax that reads it has a scale."""
        mask = self._mask_of(node)
        scores = node.args[0] if node.args[1] is mask else node.args[1]
        assert isinstance(scores, Node) and mask is not None
        if not _is_quantized(scores) and (source := _scaled(scores)) is not None:
            self._scaling(scores, source)
        annotation = QuantizationAnnotation(_annotated=True)
        annotation.input_qspec_map[scores] = self._activation(scores)
        annotation.input_qspec_map[mask] = self.specs.mask_of(node, scores)
        node.meta[_KEY] = annotation

    def _scaling(self, node: Node, source: Node) -> None:
        """A product of a value and a number."""
        own = QuantizationAnnotation(_annotated=True, output_qspec=self._activation(node))
        own.input_qspec_map[source] = self._activation(source)
        node.meta[_KEY] = own

    def _value(self, node: Node, taken: set[Node]) -> None:
        of_two = node.target in (*ADDITIONS, *SUBTRACTIONS, *MULTIPLICATIONS)
        scaled = scaled_by_channel(node)
        if (node.target in (*ADDITIONS, *SUBTRACTIONS) and not is_image_sum(node, self._parameters)) or (
            node.target in MULTIPLICATIONS
            and scaled is None
            and node not in self._rotations
            and not is_image_product(node, _is_quantized)
        ):
            return
        if node.target in SUMS and not (isinstance(node.args[0], Node) and _is_quantized(node.args[0])):
            return
        if node.target in BATCH_NORM and node.args[5]:
            return  # its statistics are those of the batch
        operands = (scaled,) if scaled is not None else node.args[:2] if of_two else node.args[:1]
        given = operands[:1] if node in self._rotations else operands
        if not all(isinstance(operand, Node) and self._is_addend(operand) for operand in given):
            return
        annotation = QuantizationAnnotation(_annotated=True)
        for operand in operands:
            assert isinstance(operand, Node)
            masked = node.target is SOFTMAX and not _is_quantized(operand)
            spec = self.specs.scores_along(arguments(node)[1]) if masked else self._activation(operand)
            annotation.input_qspec_map[operand] = spec
        last = node
        if of_two:
            user = _only_user(node)
            if user is not None and user.target in LIMITS and user not in taken and self._is_rounded(user):
                last = user
                taken.add(user)
                user.meta[_KEY] = QuantizationAnnotation(_annotated=True)
        node.meta[_KEY] = annotation
        last.meta[_KEY].output_qspec = self._activation(last)
        taken.add(node)

    def _embedding(self, node: Node) -> None:
        table = node.args[0]
        if isinstance(table, Node) and is_parameter(table):
            annotation = QuantizationAnnotation(_annotated=True)
            annotation.input_qspec_map[table] = self.specs.weight
            annotation.output_qspec = self._activation(node)
            node.meta[_KEY] = annotation

    def _move(self, node: Node) -> None:
        """A move is in 8 bits where its operand is, whose scale it keeps."""
        source = node.args[0]
        if not isinstance(source, Node) or not _is_quantized(source) or not keeps_range(node):
            return
        annotation = QuantizationAnnotation(_annotated=True)
        annotation.input_qspec_map[source] = self._activation(source)
        if is_float(node):
            annotation.output_qspec = SharedQuantizationSpec((source, node))
        node.meta[_KEY] = annotation

    def _join(self, node: Node) -> None:
        parts = node.args[0]
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Node) and is_float(part) for part in parts):
            return
        nodes = [part for part in parts if isinstance(part, Node)]
        scaled = {part: source for part in nodes if not _is_quantized(part) and (source := _scaled(part))}
        if node.name in self.separate_cats or not (scaled or any(map(_is_quantized, nodes))):
            return
        if not all(self._is_addend(part) or is_parameter(part) for part in nodes):
            return
        for part, source in scaled.items():
            self._scaling(part, source)
        first = nodes[0]
        annotation = QuantizationAnnotation(_annotated=True)
        annotation.input_qspec_map[first] = self._activation(first)
        for part in nodes[1:]:
            if part is not first:
                annotation.input_qspec_map[part] = SharedQuantizationSpec((first, node))
        annotation.output_qspec = SharedQuantizationSpec((first, node))
        node.meta[_KEY] = annotation


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _sums_of_scores(model: GraphModule) -> list[Node]:
    return [node for node in model.graph.nodes if node.target in ADDITIONS and is_score(node)]


def _scaled(node: Node) -> Node | None:
    """What is in 8 bits and multiplied by a number."""
    source = node.args[0] if node.args else None
    by_number = node.target in SCALINGS and not any(isinstance(arg, Node) for arg in node.args[1:])
    return source if by_number and isinstance(source, Node) and _is_quantized(source) else None


def _is_quantized(node: Node) -> bool:
    annotation = node.meta.get(_KEY)
    return annotation is not None and annotation.output_qspec is not None


def _path(name: str) -> str:
    """A module's path in the model, of what export calls it."""
    return name.removeprefix("L['self'].").removeprefix("L['self']")
