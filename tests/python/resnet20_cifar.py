"""Writes deploy/resnet20_cifar.onnx, the network of the quickstart: `python resnet20_cifar.py FILE`."""

import sys
import onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info


def resnet20():
    """ResNet-20 for CIFAR's images (He and others, 2016, section 4.2), with projections; no weights."""
    nodes, inputs = [], [make_tensor_value_info("images", TensorProto.FLOAT, ("N", 3, 32, 32))]

    def parameter(name, *shape):
        inputs.append(make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def unit(x, name, channels, filters, size=3, stride=1, relu=True):
        nodes.append(make_node("Conv", [x, parameter(name + ".w", filters, channels, size, size)], [name],
                               name=name, pads=[size // 2] * 4, strides=[stride] * 2))
        names = [parameter(f"{name}.{each}", filters) for each in ("scale", "shift", "mean", "variance")]
        nodes.append(make_node("BatchNormalization", [name, *names], [name + ".norm"], name=name + ".norm"))
        return activated(name + ".norm", name) if relu else name + ".norm"

    def activated(x, name):
        nodes.append(make_node("Relu", [x], [name + ".relu"], name=name + ".relu"))
        return name + ".relu"

    x, channels = unit("images", "stem", 3, 16), 16
    for stage, filters in enumerate((16, 32, 64), 1):
        for block in range(1, 4):
            name, stride = f"stage{stage}.{block}", 2 if filters > channels else 1
            y = unit(x, name + ".a", channels, filters, stride=stride)
            y = unit(y, name + ".b", filters, filters, relu=False)
            if filters != channels:
                x = unit(x, name + ".skip", channels, filters, size=1, stride=stride, relu=False)
            nodes.append(make_node("Add", [y, x], [name + ".sum"], name=name + ".sum"))
            x, channels = activated(name + ".sum", name), filters
    nodes.append(make_node("GlobalAveragePool", [x], ["pool"], name="pool"))
    # A convolution of one pixel, which agents measure like all others.
    nodes.append(make_node("Conv", ["pool", parameter("classes.w", 10, 64, 1, 1)], ["classes"], name="classes"))
    nodes.append(make_node("Flatten", ["classes"], ["scores"], name="scores"))
    outputs = [make_tensor_value_info("scores", TensorProto.FLOAT, ("N", 10))]
    return make_model(make_graph(nodes, "resnet20_cifar", inputs, outputs),
                      opset_imports=[make_opsetid("", 17)], ir_version=8, producer_name="ucudnn")


if __name__ == "__main__":
    model = resnet20()
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])
