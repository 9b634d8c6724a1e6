"""The scripts of Tensors in memory: what each is given, and what it prints."""

CASES = {
    "new_tensor": (("trunc_normal_", 256, 256, 2.0), ["nn.init.trunc_normal_", "predicted standard deviation 0.880"]),
    "bytes_of": (
        ((49152, 12288), "fp32"),
        ["predicted 2.42 GB = 49,152 · 12,288 · 4 B", "'GiB': '2.25'", "nothing allocated"],
    ),
    "view_claim": ((1,), ["x[0, :10] (10,)", "claimed 40 B | storage 4000000 B"]),
    "device_memory": (((32, 32), "fp32", 2, "cpu"), ["predicted 8192 B", "measured 8192 B", "blocks of 512 B: 8192 B"]),
    "move": ((65536, "cpu", 1e10), ["predicted 13.1 µs = 2 · 65,536 B / 10.0 GB/s", "new memory", "unexplained"]),
}
