"""What the kernels of this folder compute, in float64."""

import numpy as np


def _wide(*arrays):
    return tuple(np.asarray(array).astype(np.float64) for array in arrays)


def matmul(inputs, problem):
    a, b = _wide(inputs["a"], inputs["b"])
    return a @ b


def matmul_turned(inputs, problem):
    a, b = _wide(inputs["a"], inputs["b"])
    return a @ b.T


def row_sums(x):
    (wide,) = _wide(x)
    return wide.sum(axis=1)


def softmax(x):
    (wide,) = _wide(x)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(inputs):
    x, weight, bias = _wide(inputs["x"], inputs["weight"], inputs["bias"])
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def transpose(x):
    return np.asarray(x).T
