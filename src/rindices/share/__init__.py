"""Pass a model on: as a card, an ONNX graph or a web page; and take over models of others."""
