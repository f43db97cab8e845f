#!/usr/bin/env python3
"""Writes a random checkpoint in the published directory format, in float16: for benchmarks.

    make_checkpoint.py DIR [--size base|large|tiny] [--seed N]

Needs numpy only. The weights are scaled so that activations stay of order one through all layers, as a trained model's do.
"""
import argparse
import json
import os

import numpy as np

SIZES = {  # hidden, layers, heads, intermediate, vocabulary, window
    "tiny": (128, 4, 2, 192, 640, 16),
    "base": (768, 22, 12, 1152, 50368, 128),
    "large": (1024, 28, 16, 2624, 50368, 128),
}
HEAD_LAYERS = 2
FULL_EVERY = 3
THETAS = {"full_attention": 160000.0, "sliding_attention": 10000.0}


def encoder_tensors(size):
    d, layers, _, f, vocab, _ = SIZES[size]
    yield "encoder.embeddings.tok_embeddings.weight", (vocab, d), 1.0
    yield "encoder.embeddings.norm.weight", (d,), None
    for i in range(layers):
        prefix = f"encoder.layers.{i}."
        if i:
            yield prefix + "attn_norm.weight", (d,), None
        yield prefix + "attn.Wqkv.weight", (3 * d, d), 1.0 / d ** 0.5
        yield prefix + "attn.Wo.weight", (d, d), 1.0 / d ** 0.5
        yield prefix + "mlp_norm.weight", (d,), None
        yield prefix + "mlp.Wi.weight", (2 * f, d), 1.0 / d ** 0.5
        yield prefix + "mlp.Wo.weight", (d, f), 1.0 / f ** 0.5
    yield "encoder.final_norm.weight", (d,), None


def head_tensors(size):
    d = SIZES[size][0]
    for i in range(HEAD_LAYERS):
        prefix = f"head.layers.{i}."
        yield prefix + "self_attn.in_proj_weight", (3 * d, d), 1.0 / d ** 0.5
        yield prefix + "self_attn.in_proj_bias", (3 * d,), 0.1
        yield prefix + "self_attn.out_proj.weight", (d, d), 1.0 / d ** 0.5
        yield prefix + "self_attn.out_proj.bias", (d,), 0.1
        yield prefix + "linear1.weight", (4 * d, d), 1.0 / d ** 0.5
        yield prefix + "linear1.bias", (4 * d,), 0.1
        yield prefix + "linear2.weight", (d, 4 * d), 1.0 / (4 * d) ** 0.5
        yield prefix + "linear2.bias", (d,), 0.1
        for norm in ("norm1", "norm2"):
            yield f"{prefix}{norm}.weight", (d,), None
            yield f"{prefix}{norm}.bias", (d,), 0.1
    yield "type_emb.weight", (3, d), 1.0
    yield "scorer.0.weight", (d,), None
    yield "scorer.0.bias", (d,), 0.1
    yield "scorer.1.weight", (d, d), 1.0 / d ** 0.5
    yield "scorer.1.bias", (d,), 0.1
    yield "scorer.3.weight", (1, d), 3.0 / d ** 0.5
    yield "scorer.3.bias", (1,), 0.1
    yield "act_head.0.weight", (256, d + 4), 1.0 / d ** 0.5
    yield "act_head.0.bias", (256,), 0.1
    yield "act_head.2.weight", (2, 256), 1.0 / 16
    yield "act_head.2.bias", (2,), 0.1


def write_tensors(path, tensors, random):
    """`tensors`: name, shape, and the standard deviation, or None for a norm's weight; `temperature` comes last."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in tensors:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header["temperature"] = {"dtype": "F32", "shape": [3], "data_offsets": [at, at + 12]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, shape, scale in tensors:
            left = int(np.prod(shape))
            while left:
                count = min(left, 1 << 22)
                left -= count
                values = random.standard_normal(count, dtype=np.float32)
                values = 1 + 0.2 * values if scale is None else values * np.float32(scale)
                out.write(values.astype("<f2").tobytes())
        out.write(np.ones(3, "<f4").tobytes())


def encoder_config(size):
    d, layers, heads, f, vocab, window = SIZES[size]
    return {
        "architectures": ["ModernBertModel"], "model_type": "modernbert", "vocab_size": vocab, "hidden_size": d, "intermediate_size": f,
        "num_hidden_layers": layers, "num_attention_heads": heads, "hidden_activation": "gelu", "max_position_embeddings": 8192,
        "norm_eps": 1e-5, "norm_bias": False, "attention_bias": False, "mlp_bias": False, "local_attention": window,
        "global_attn_every_n_layers": FULL_EVERY,
        "layer_types": ["sliding_attention" if i % FULL_EVERY else "full_attention" for i in range(layers)],
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in THETAS.items()},
        "cls_token_id": 0, "sep_token_id": 1, "pad_token_id": 3, "bos_token_id": 0, "eos_token_id": 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.makedirs(os.path.join(options.folder, "encoder"), exist_ok=True)
    random = np.random.Generator(np.random.PCG64(options.seed))
    tensors = [*encoder_tensors(options.size), *head_tensors(options.size)]
    write_tensors(os.path.join(options.folder, "model.safetensors"), tensors, random)
    with open(os.path.join(options.folder, "encoder", "config.json"), "w", encoding="utf-8") as out:
        json.dump(encoder_config(options.size), out, indent=2)
    with open(os.path.join(options.folder, "rl_agent_config.json"), "w", encoding="utf-8") as out:
        json.dump({"encoder": "encoder", "head_layers": HEAD_LAYERS, "max_len": 512, "head_max_len": 192, "amp_dtype": "bf16",
                   "act_costs": {"ask": 0.1}, "temperature": [1.0, 1.0, 1.0]}, out, indent=2)


main()
