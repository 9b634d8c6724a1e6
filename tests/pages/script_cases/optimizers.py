"""The scripts of Optimizers: what each is given, and what it prints."""

CASES = {
    "surface": (
        ("quadratic", ("sgd", "adam"), "sgd", 0.25, (-4.0, 1.5), 200, 10.0),
        ["sgd: after 33 steps", "diverged at step 34", "adam: after 200 steps", "predicted loss after 200 steps"],
    ),
    "first_step": (("adagrad", -1000.0, 0.1), ["g = -1000: predicted 0.1 = −0.1 · -1, taken 0.1", "ε = 1e-10"]),
    "state": (("adamw", 4, 2, "fp32"), ["predicted 300 B = 288 + 12", "measured 300 B", "adagrad: 144 B", "sgd: 0 B"]),
}
