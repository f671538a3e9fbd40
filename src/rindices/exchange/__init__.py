"""Models for others and from others: card, ONNX graph, publication and import."""
