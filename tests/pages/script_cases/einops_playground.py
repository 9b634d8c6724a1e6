"""The scripts of the einops page: what each is given, and what it prints."""

CASES = {
    "transform": (
        ("rearrange", "... (heads d) -> ... heads d", [(2, 3, 8)], {"heads": 2}),
        [
            "-> (2, 3, 2, 4)",
            "x = x.reshape(2, 3, 2, 4)",
            "predicted 48 measured 48",
            "gives: True",
            "[40., 41., 42., 43.]",
        ],
    ),
    "storage": (
        ("rearrange", "a b c -> c (b a)", [(2, 3, 4)], {}),
        ["x = x.reshape(4, 6)", "new “b” and “a” do not lie", "predicted 192 B =", "measured  192 B"],
    ),
    "einsum": (
        ("a b, b c, c d -> a d", [(8, 2), (2, 9), (9, 2)]),
        ["y · z keeps ('b', 'd') sums over ('c',) 72 FLOPs", "taken: 136", "predicted 136 torch's count 136.0"],
    ),
    "reduction": (("... hidden -> ...", (2, 3, 4)), ["predicted 4 = hidden=4", "measured  4.0"]),
    "orders": (
        ("(heads d) -> heads d", "(d heads) -> heads d", (8,), {"heads": 2}),
        ["[[0., 2., 4., 6.],", "predicted 2 measured 2.0"],
    ),
    "pack": (("i *", [(2, 3), (2,)]), ["(2, 4) ((3,), ())", "torch.cat", "predicted 32 B measured 32 B"]),
    "unpack": (("i *", (2, 5), [(3,), (-1,)]), ["((2, 3), (2, 2))", "predicted 40 B measured 40 B"]),
}
