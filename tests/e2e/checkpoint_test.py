"""Checkpoints as users meet them: broken ones are refused by name before anything is read, and weights that give NaN fail only the
records that reach them."""
import json
import os
import shutil
import struct
import unittest

from support import DEMO, Case, jsonl, kime, read, record


class Checkpoints(Case):
    def copy(self):
        where = self.path("checkpoint")
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(DEMO, where)
        for folder, _, names in os.walk(where):
            for name in names:
                os.chmod(os.path.join(folder, name), 0o644)
        return where

    def header(self, where):
        data = read(where, "model.safetensors")
        size = struct.unpack("<Q", data[:8])[0]
        return json.loads(data[8:8 + size]), 8 + size

    def rewrite(self, where, header, at):
        body = read(where, "model.safetensors")[at:]
        text = json.dumps(header).encode()
        with open(os.path.join(where, "model.safetensors"), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + body)

    def refused(self, where, *words):
        for args in (("score", "-m", where), ("check", "-m", where), ("model", where), ("bench", "-m", where)):
            ran = kime(*args, stdin=jsonl(record()))
            self.assertEqual((ran.returncode, ran.stdout), (2, b""), args)
            for word in words:
                self.assertIn(word, ran.stderr.decode())

    def test_what_is_missing_is_named(self):
        for name in ("model.safetensors", "rl_agent_config.json", "encoder/config.json"):
            where = self.copy()
            os.remove(os.path.join(where, name))
            self.refused(where, name)

    def test_a_truncated_file(self):
        where = self.copy()
        os.truncate(os.path.join(where, "model.safetensors"), 1_000_000)
        self.refused(where, "model.safetensors")

    def test_a_header_length_of_2_63(self):
        where = self.copy()
        with open(os.path.join(where, "model.safetensors"), "r+b") as out:
            out.write(struct.pack("<Q", 1 << 63))
        self.refused(where, "model.safetensors", str(1 << 63))

    def test_all_tensors_that_do_not_fit_in_one_error(self):
        where = self.copy()
        header, at = self.header(where)
        header["odd.weight"] = header.pop("scorer.3.bias")
        first, second = header["scorer.0.weight"], header["type_emb.weight"]
        first["shape"] = [first["shape"][0] // 2, 2]
        second["shape"] = second["shape"][::-1]
        self.rewrite(where, header, at)
        self.refused(where, "odd.weight", "scorer.3.bias", "scorer.0.weight", "type_emb.weight")

    def test_offsets_past_the_end(self):
        where = self.copy()
        header, at = self.header(where)
        last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"][1])
        header[last]["data_offsets"][1] += 4096
        self.rewrite(where, header, at)
        self.refused(where, "model.safetensors", last)

    def test_what_kime_cannot_run_is_named(self):
        for name, field, value, word in (("encoder/config.json", "model_type", "bert", "bert"), ("encoder/config.json", "mlp_bias", True, "mlp_bias"),
                                         ("encoder/config.json", "hidden_activation", "silu", "silu"),
                                         ("rl_agent_config.json", "option_layout", "parallel", "parallel"),
                                         ("rl_agent_config.json", "act_costs", {"a": 1, "b": 2}, "act")):
            where = self.copy()
            path = os.path.join(where, name)
            config = json.loads(read(path))
            config[field] = value
            with open(path, "w", encoding="utf-8") as out:
                json.dump(config, out)
            self.refused(where, "unsupported", word)

    def test_weights_that_give_nan_fail_the_records_that_reach_them(self):
        where = self.copy()
        header, at = self.header(where)
        tensor = header["encoder.embeddings.tok_embeddings.weight"]
        self.assertEqual(tensor["dtype"], "F16")
        records = read(DEMO, "records.jsonl").splitlines(keepends=True)
        token = json.loads(records[0])["ids"][-6]
        with open(os.path.join(where, "model.safetensors"), "r+b") as out:
            out.seek(at + tensor["data_offsets"][0] + 2 * token * tensor["shape"][1])
            out.write(struct.pack("<H", 0x7E00))
        reach = [token in json.loads(line)["ids"] for line in records]
        self.assertTrue(any(reach) and not all(reach))
        ran = kime("score", "-m", where, stdin=b"".join(records))
        self.assertEqual(ran.returncode, 1)
        want = read(os.path.dirname(DEMO), "golden", "demo.jsonl").splitlines(keepends=True)
        for hit, line, sound in zip(reach, ran.stdout.splitlines(keepends=True), want):
            if hit:
                self.assertEqual(json.loads(line)["error"]["kind"], "nonfinite")
            else:
                self.assertEqual(line, sound)


if __name__ == "__main__":
    unittest.main()
