"""The scripts of Strides & views: what each is given, and what it prints."""

CASES = {
    "place": (((4, 4), (1, 2)), ["predicted place 0 + 1·4 + 2·1 = 6", "in torch 6"]),
    "chain": (
        ((2, 3), "x.transpose(1, 0).view(2, 3)"),
        ["transpose(1, 0): predicted view, torch view", "strides=(1, 3)", "view(2, 3): predicted error, torch error",
         "view size is not compatible", "cannot merge"],
    ),
    "write": (
        ((2, 3), "x.view(3, 2).clone()", 0, (0, 0)),
        ["writing at 0 + 0·3 + 0·1 = 0", "x: predicted [(0, 0)], changed [(0, 0)]",
         "clone(): predicted [], changed []"],
    ),
    "held_bytes": (((1000000,), "x[:10]"), ["claimed 10 · 4 B = 40 B", "held 4.00 MB", "+3,999,960 B"]),
    "backwards": ((4,), ["numpy's strides (-1,)", "step must be greater than zero", "negative", "16 B allocated"]),
    "cost": ((64, 1, "transposed"), ["x.sum(dim=1): predicted", "x.t(): predicted 0", "strided reads", "unexplained"]),
    "elementwise": (((1.0, 4.0, 9.0),), ["x.pow(2) (1.0, 16.0, 81.0)", "12 B allocated",
        "predicted 72 B measured 72 B"]),
    "mask": ((3, 0), ["(1, 1, 1)\n(0, 1, 1)\n(0, 0, 1)", "predicted 3 + 2 + 1 = 6", "counted 6"]),
    "matmul": (
        ((4, 8, 16, 32), (32, 2)),
        ["result (4, 8, 16, 2)", "repeats='b'", "predicted 2 · 4 · 8 · 16 · 2 · 32 = 65.5 kFLOP", "count 65.5 kFLOP"],
    ),
}  # fmt: skip
