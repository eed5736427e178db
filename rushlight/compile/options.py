"""The options of `compile(options=...)`: those that are obeyed, and those of PyTorch's compiler that a program may name but that change
nothing here, since they choose among ways of a compiler that this one has not. Any other name is refused, as an unknown mode is."""

from typing import Any

OBEYED = ("max_autotune", "max_autotune_gemm")
FLAGS = (*OBEYED, *"""aggressive_fusion allow_buffer_reuse benchmark_kernel combo_kernels comprehensive_padding conv_1x1_as_mm coordinate_descent_tuning
    cpp_wrapper dce debug deterministic emulate_precision_casts epilogue_fusion epilogue_fusion_first fallback_random force_fuse_int_mm_with_mul
    force_layout_optimization freezing fx_graph_cache graph_partition inplace_buffers keep_output_stride layout_optimization
    max_autotune_pointwise memory_planning nan_asserts pattern_matcher permute_fusion reorder_for_locality shape_padding size_asserts
    split_reductions use_fast_math use_mixed_mm verbose_progress cpp.weight_prepack trace.enabled trace.graph_diagram trace.output_code
    triton.cudagraph_skip_dynamic_graphs triton.cudagraph_support_input_mutation triton.cudagraph_trees triton.cudagraphs
    triton.fast_path_cudagraph_asserts triton.unique_kernel_names""".split())
KINDS = dict.fromkeys(FLAGS, bool) | {"compile_threads": int, "cpp.threads": int, "max_autotune_gemm_backends": str}
FREE = ("cpp.simdlen", "guard_filter_fn", "trace.debug_dir")  # None or a value of several types


def wants_tuning(options: dict[str, Any]) -> bool:
    """Whether the options ask for what mode="max-autotune" does; RuntimeError for a name or a type that PyTorch refuses too."""
    tuned = False
    for given, value in options.items():
        name = given.replace("-", "_")
        if name in FREE:
            continue
        if name not in KINDS:
            raise RuntimeError(f"Unexpected optimization option {given}, known options are {sorted([*KINDS, *FREE])}")
        if type(value) is not KINDS[name]:
            raise RuntimeError(f"Unexpected type of attr {given}, got {type(value).__name__} should be {KINDS[name].__name__}")
        tuned = tuned or name in OBEYED and bool(value)
    return tuned
