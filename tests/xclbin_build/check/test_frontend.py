"""Sources as the checker reads them: loops, pragmas in their scopes, arrays."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.hls import cfg, ir
from xclbin_build.hls.arrays import Partition
from xclbin_build.hls.clang import SourceError
from xclbin_build.hls.frontend import Kernel
from xclbin_build.hls.instance import Instance

TEMPLATE = """
    #define LANES 4
    template <int FACTOR>
    void work(float (&a)[64], float* out) {
    #pragma HLS array_partition variable = a cyclic factor = FACTOR dim = 1
    scale:
        for (int i = 0; i < 64; i++) {
    #pragma HLS PIPELINE II = FACTOR / 2
    lanes:
            for (int j = 0; j < LANES; j++) a[(i * LANES + j) % 64] *= 2.0f;
        }
        for (int i = 0; i < 64; i++) out[i] = a[i];
    }
    void top(float* out) {
        float a[64], b[64];
        work<4>(a, out);
        work<8>(b, out);
    }
"""


def instances(kernel: Kernel, name: str) -> list[Instance]:
    return [i for i in kernel.instances.values() if i.name == name]


def test_a_pragma_means_what_its_template_and_its_caller_make_of_it(load: Load) -> None:
    kernel = load(TEMPLATE)
    assert [i.target_ii for i in instances(kernel, "scale")] == [2, 4]
    partitions = {a.name: a.partitions for a in kernel.arrays.values() if a.value.startswith("%")}
    assert partitions["a"] == [Partition("cyclic", 1, 4)]
    assert partitions["b"] == [Partition("cyclic", 1, 8)]


def test_loops_inside_a_pipelined_one_are_unrolled_and_the_others_stay(load: Load) -> None:
    kernel = load(TEMPLATE)
    left = [kernel.instance_of(loop) for loop in kernel.flow.loops.values()]
    assert sorted(i.name for i in left if i) == ["VITIS_LOOP_12_1", "VITIS_LOOP_12_1", "scale", "scale"]
    assert all(len(loop.blocks) <= 3 for loop in kernel.flow.loops.values())


def test_labels_and_pragmas_that_macros_make_are_seen(load: Load) -> None:
    kernel = load("""
        #define PIPELINED(label) label:
        #define ITERATION(label) _Pragma("HLS pipeline II=1")
        void top(int* out) {
            PIPELINED(count) for (int i = 0; i < 9; i++) {
                ITERATION(count)
                out[i] = i;
            }
        }
    """)
    (found,) = kernel.instances.values()
    assert (found.name, found.pipeline, found.target_ii) == ("count", True, 1)


def test_a_pragma_that_names_nothing_is_a_note_and_no_error(load: Load) -> None:
    kernel = load("""
        void top(int* out) {
        #pragma HLS array_partition variable = nowhere complete
            for (int i = 0; i < 9; i++) out[i] = i;
        }
    """)
    assert kernel.notes == [
        "kernel.cpp:3: the pragma 'array_partition' is left out: use of undeclared identifier 'nowhere'"
    ]


def test_c_is_read_as_c(load: Load) -> None:
    kernel = load(
        """
        void top(int *restrict out, int a[16]) {
            int *class = out;
        #pragma HLS array_partition variable=a cyclic factor=2
            for (int i = 0; i < 16; i++) class[i] = a[i];
        }
        """,
        suffix=".c",
    )
    assert kernel.arrays["%a"].partitions == [Partition("cyclic", 1, 2)]


def test_a_missing_top_and_wrong_code_are_told(load: Load) -> None:
    with pytest.raises(SourceError, match=r"has no function 'other'; it has top"):
        load('extern "C" void top() {}', top="other")
    with pytest.raises(SourceError, match=r"rejects the source: .*undeclared identifier 'nothing'"):
        load("void top() { nothing(); }")


def test_the_ir_is_read_with_its_types_and_operands() -> None:
    module = ir.parse("""
%struct.pair = type { i8, [3 x i32], i64 }
@table = internal constant [4 x float] zeroinitializer

define void @f(ptr noalias %p, i32 %n) {
entry:
  br label %loop

loop:                                             ; preds = %loop, %entry
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr inbounds %struct.pair, ptr %p, i64 0, i32 1, i32 %i
  %x = load i32, ptr %at, align 4
  %y = call i32 @llvm.smax.i32(i32 %x, i32 7)
  store i32 %y, ptr %at, align 4
  %next = add nuw nsw i32 %i, 1
  %done = icmp eq i32 %next, %n
  br i1 %done, label %exit, label %loop

exit:                                             ; preds = %loop
  ret void
}
""")
    function = module.function("f")
    assert function is not None
    flow = cfg.analyse(function)
    assert flow.loops["loop"].blocks == {"loop"}
    assert function.parameters == [("%p", "ptr"), ("%n", "i32")]
    by_opcode = {i.opcode: i for i in function.blocks["loop"]}
    assert by_opcode["phi"].incoming == [("0", "entry"), ("%next", "loop")]
    assert by_opcode["call"].callee == "llvm.smax.i32" and by_opcode["call"].operands == ["%x", "7"]
    assert by_opcode["store"].pointer == "%at" and by_opcode["store"].operands == ["%y"]
    assert by_opcode["icmp"].type == "i32"
    assert module.size_of("%struct.pair") == 24
    assert [offset for offset, _ in module.offsets("%struct.pair")] == [0, 4, 16]
    assert module.globals["@table"].constant and module.globals["@table"].type == "[4 x float]"


KERNEL_3X3 = """
    void top(const float in[1024][1024], const float kernel[3][3], float out[1022][1022]) {{
    rows:
        for (int y = 0; y < 1022; y++)
    columns:
            for (int x = 0; x < 1022; x++) {{
                float sum = 0;
    kernel_rows:
                for (int i = 0; i < 3; i++)
    kernel_columns:
                    for (int j = 0; j < 3; j++) {{
    {pragma}
                        sum += in[y + i][x + j] * kernel[i][j];
                    }}
                out[y][x] = sum;
            }}
    }}
"""


@pytest.mark.parametrize(
    ("pragma", "left"),
    [
        ("", ["rows", "columns"]),
        ("#pragma HLS unroll off", ["rows", "columns", "kernel_rows", "kernel_columns"]),
        ("#pragma HLS pipeline off", ["rows", "columns", "kernel_rows", "kernel_columns"]),
    ],
)
def test_short_loops_unroll_in_the_one_around_them_unless_a_pragma_speaks(
    load: Load, pragma: str, left: list[str]
) -> None:
    kernel = load(KERNEL_3X3.format(pragma=pragma))
    names = [instance.name for loop in kernel.flow.loops.values() if (instance := kernel.instance_of(loop))]
    assert sorted(names) == sorted(left)
    products = [i for i in kernel.function.instructions() if i.opcode == "fmul"]
    assert len(products) == (1 if pragma else 9)


def test_pragmas_in_compound_assignments_are_seen(load: Load) -> None:
    kernel = load("""
        struct lanes {
            int v[8];
            lanes& operator<<=(const lanes& o) {
                for (int i = 0; i < 8; i++) {
        #pragma HLS unroll
                    v[i] <<= o.v[i];
                }
                return *this;
            }
        };
        void top(lanes* a, const lanes* b) { *a <<= *b; }
    """)
    assert [(i.source.function, i.unroll) for i in kernel.instances.values() if i.source] == [("operator", 0)]
    assert not kernel.flow.loops
