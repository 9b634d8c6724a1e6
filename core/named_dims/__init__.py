"""Named dimensions: what rearrange, reduce, repeat, einsum, pack and unpack do, explained (CS336 lecture 2, §5.3)."""

from core.named_dims.annotations import EXAMPLES, Checked, annotated_example, check_annotations
from core.named_dims.compare import (
    compare_einsum_flops,
    compare_elements,
    compare_mean_and_sum,
    compare_orders,
    compare_packed_bytes,
    compare_storage,
    compare_unpacked_storage,
)
from core.named_dims.contraction import OPERAND_NAMES, Contraction, Product
from core.named_dims.execute import Execution, call_einops, einops_says, execute, executed, numbered, shares_storage
from core.named_dims.explain import Explanation, explain
from core.named_dims.packing import Packed, Unpacked, explain_pack, explain_unpack, parse_shape
from core.named_dims.parse import MAX_PATTERN_CHARS, OPERATIONS, REDUCTIONS, PatternError
from core.named_dims.plan import Step, label
from core.named_dims.sizes import MAX_ELEMENTS
from core.named_dims.sources import CellSources, number_of_sources, sources
from core.named_dims.texts import MAX_TEXT_CHARS, read_shapes, read_sizes

__all__ = [
    "EXAMPLES",
    "MAX_ELEMENTS",
    "MAX_PATTERN_CHARS",
    "MAX_TEXT_CHARS",
    "OPERAND_NAMES",
    "OPERATIONS",
    "REDUCTIONS",
    "CellSources",
    "Checked",
    "Contraction",
    "Execution",
    "Explanation",
    "Packed",
    "PatternError",
    "Product",
    "Step",
    "Unpacked",
    "annotated_example",
    "call_einops",
    "check_annotations",
    "compare_einsum_flops",
    "compare_elements",
    "compare_mean_and_sum",
    "compare_orders",
    "compare_packed_bytes",
    "compare_storage",
    "compare_unpacked_storage",
    "einops_says",
    "execute",
    "executed",
    "explain",
    "explain_pack",
    "explain_unpack",
    "label",
    "number_of_sources",
    "numbered",
    "parse_shape",
    "read_shapes",
    "read_sizes",
    "shares_storage",
    "sources",
]
