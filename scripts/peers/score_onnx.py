#!/usr/bin/env python3
"""Scores records with the reference package's model, exported to ONNX, in ONNX Runtime on the CPU; --int8 quantizes its matrix products
dynamically. What is exported and quantized stays in --folder."""
import os

import onnxruntime

from common import arguments, load_model, measure

INPUTS = ["input_ids", "attention_mask", "marker_pos", "marker_mask", "qtype"]


def export(model_path, path):
    import torch
    example = (torch.randint(0, 100, (2, 24)), torch.ones(2, 24, dtype=torch.long), torch.tensor([[1, 5, 9]] * 2),
               torch.ones(2, 3, dtype=torch.bool), torch.tensor([0, 1]))
    axes = dict(zip(INPUTS, [{0: "b", 1: "n"}, {0: "b", 1: "n"}, {0: "b", 1: "k"}, {0: "b", 1: "k"}, {0: "b"}]))
    partial = path + ".partial"
    torch.onnx.export(load_model(model_path), example, partial, input_names=INPUTS, output_names=["logits", "act"], dynamic_axes=axes,
                      opset_version=18, dynamo=False)
    os.replace(partial, path)


def quantize(source, path):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    partial = path + ".partial"
    quantize_dynamic(source, partial, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])
    os.replace(partial, path)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--folder", required=True, help="where model.onnx and model.int8.onnx are, or are put")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, "model.onnx")
    quantized = os.path.join(options.folder, "model.int8.onnx")
    if not os.path.exists(path) and not (options.int8 and os.path.exists(quantized)):
        export(options.model, path)
    if options.int8:
        if not os.path.exists(quantized):
            quantize(path, quantized)
        path = quantized
    settings = onnxruntime.SessionOptions()
    if options.threads:
        settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    wanted = {each.name for each in session.get_inputs()}

    def score(inputs):
        named = {name: array for name, array in zip(INPUTS, inputs) if name in wanted}
        return session.run(["logits", "act"], named)

    measure(options, score)


main()
