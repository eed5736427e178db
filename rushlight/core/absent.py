"""Names that PyTorch 2.13 has and this package has not, by module: what an AttributeError then says instead of guessing a near name.

Split when a name was not found, not before. A name that gets built leaves this list; a test compares it with both sides.
"""

from collections.abc import Callable, Iterable
from typing import Any

NAMES = {
    "rushlight": """
        AcceleratorError BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DisableTorchFunction DisableTorchFunctionSubclass DispatchKey DispatchKeySet DoubleStorage Event FloatStorage
        FunctionSchema Future HalfStorage IntStorage LongStorage PyTorchFileReader PyTorchFileWriter QInt32Storage QInt8Storage
        QUInt2x4Storage QUInt4x2Storage QUInt8Storage ShortStorage Storage Stream SymBool SymFloat SymInt Tag ThroughputBenchmark
        addmv_ ao autocast_decrement_nesting autocast_increment_nesting batch_norm_backward_elemt batch_norm_backward_reduce
        batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
        bits16 bits1x8 bits2x4 bits4x2 bits8 ccol_indices_copy chalf choose_qparams_optimized classes clear_autocast_cache
        col_indices_copy compiled_with_cxx11_abi complex32 cpp cpu crow_indices_copy cudnn_affine_grid_generator cudnn_batch_norm
        cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
        cudnn_is_acceptable dequantize detach_copy dsmm eig embedding_bag embedding_renorm_ empty_quantized
        fake_quantize_per_channel_affine fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight
        fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix float4_e2m1fn_x2 float8_e4m3fn
        float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu fork from_file functional fused_moving_avg_obs_fake_quant
        futures get_autocast_cpu_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype
        get_deterministic_debug_mode get_device_module gru_cell has_lapack has_mkl has_openmp has_spectral hsmm hspmm
        indices_copy int1 int2 int3 int4 int5 int6 int7 int_repr is_autocast_cache_enabled is_autocast_ipu_enabled
        is_autocast_xla_enabled is_vulkan_available is_warn_always_enabled jagged legacy_contiguous_format lstm_cell
        lstsq matrix_rank miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
        miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d
        mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer monitor mtia
        native_norm nested norm_except_dim package per_channel_affine per_channel_affine_float_qparams
        per_channel_symmetric per_tensor_affine per_tensor_symmetric q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points q_scale q_zero_point qint32 qint8 qscheme quantization quantize_per_channel quantize_per_tensor
        quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell
        quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell quasirandom
        quint2x4 quint4x2 quint8 resize_as_sparse_ return_types rnn_relu_cell rnn_tanh_cell row_indices_copy
        saddmm segment_reduce set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
        set_autocast_dtype set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
        set_autocast_xla_enabled set_deterministic_debug_mode set_warn_always slice_inverse smm solve sparse
        sparse_bsc sparse_bsc_tensor sparse_bsr sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc
        sparse_csc_tensor sparse_csr_tensor split_copy spmm sspaddmm storage sym_constrain_range sym_constrain_range_for_size
        sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum symeig types uint1 uint2 uint3 uint4
        uint5 uint6 uint7 values_copy view_as_complex_copy view_as_real_copy wait""",
    "rushlight.nn": """
        backends cpp grad intrinsic qat quantizable quantized""",
    "rushlight.nn.attention": """
        SDPAParams activate_flash_attention_impl bias can_use_efficient_attention can_use_flash_attention
        current_flash_attention_impl experimental flex_attention list_flash_attention_impls register_flash_attention_impl
        restore_flash_attention_impl varlen""",
    "rushlight.nn.functional": """
        ScalingType SwizzleType grad grouped_mm handle_torch_function has_torch_function has_torch_function_unary
        has_torch_function_variadic scaled_grouped_mm scaled_mm""",
    "rushlight.nn.utils": """
        convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format""",
    "rushlight.utils": """
        ThroughputBenchmark backcompat backend_registration bundled_inputs collect_env cpp_backtrace cpp_extension debug_log
        deterministic file_baton flop_counter generate_methods_for_privateuse1_backend get_cpp_backtrace hipify jit mkldnn
        mobile_optimizer model_dump model_zoo module_tracker rename_privateuse1_backend serialization show_pickle swap_tensors
        throughput_benchmark viz weak""",
    "rushlight.autograd": """
        DeviceType NestedIOFunction ProfilerActivity ProfilerConfig ProfilerEvent ProfilerState SavedTensor anomaly_mode
        enforce_grad_layout_policy handle_torch_function has_torch_function is_multithreading_enabled is_tensor_like
        is_view_replay_enabled kineto_available profiler_legacy profiler_util""",
    "rushlight.optim": """
        swap_in_optimizer_params_and_state""",
    "rushlight.func": """
        functionalize replace_all_batch_norm_modules_""",
    "rushlight.ops": "aten higher_order load_library loaded_libraries prim prims quantized",
}
WHY = {"hub": "it opens the network"}


def absence(module: str, name: str) -> str:
    """": PyTorch has ..." for the end of an error text, if PyTorch's module of that name has `name`; else the empty string.

    >>> from rushlight.core.absent import absence
    >>> absence("rushlight", "sparse_coo_tensor")
    ': PyTorch has this name, Rushlight has not (it is not built)'
    """
    if name in NAMES.get(module, "").split() or module == "rushlight" and name in WHY:
        return f": PyTorch has this name, Rushlight has not ({WHY.get(name, 'it is not built')})"
    return ""


class NoSuchName(AttributeError):
    """A module has no such name. Which one was meant is looked for when the message is read: `hasattr` and `from x import y` only ask."""

    def __init__(self, module: str, name: str, names: Callable[[], Iterable[str]]):
        super().__init__(f"module '{module}' has no attribute '{name}'", name=name, obj=None)
        self.names = names

    def __str__(self) -> str:
        import difflib
        near = difflib.get_close_matches(self.name or "", self.names(), 1)
        return self.args[0] + (f". Did you mean: '{near[0]}'?" if near else "")

    def __reduce__(self) -> tuple:
        return AttributeError, (str(self),)


def refuse(module: str, name: str) -> None:
    """Raise AttributeError for a name that PyTorch's module has; for another, do nothing."""
    why = absence(module, name)
    if why:  # with obj=None Python adds no "Did you mean"
        raise AttributeError(f"module '{module}' has no attribute '{name}'{why}", name=name, obj=None)


def refuser(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`, which raises AttributeError, and says so where PyTorch has the name."""
    def __getattr__(name: str) -> Any:
        refuse(module, name)
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    return __getattr__
